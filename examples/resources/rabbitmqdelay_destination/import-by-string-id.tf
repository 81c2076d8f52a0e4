import {
  to = rabbitmqdelay_destination.billing
  id = "%2F/tasks.delivery/queue/billing/*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.billing"
}
