import {
  to = rabbitmqdelay_destination.billing
  id = "%2F/orders.delivery/queue/billing/*.*.*.*.billing"
}
