import {
  to = rabbitmqdelay_cascade.tasks
  id = "%2F/tasks.delay-16"
}
