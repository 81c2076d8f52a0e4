# All destinations of cascades and ladders that the user may look at; the first 100, unless there is a limit.
list "rabbitmqdelay_destination" "all" {
  provider = rabbitmqdelay
  limit    = 1000
}

# Those of one cascade.
list "rabbitmqdelay_destination" "tasks" {
  provider = rabbitmqdelay

  config {
    vhost             = "/"
    delivery_exchange = "tasks.delivery"
  }
}
