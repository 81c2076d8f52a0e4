import {
  to = rabbitmqdelay_cascade.tasks
  identity = {
    vhost          = "/"
    entry_exchange = "tasks.delay-16"
  }
}
