import {
  to = rabbitmqdelay_destination.billing
  identity = {
    vhost             = "/"
    delivery_exchange = "tasks.delivery"
    queue             = "billing"
    routing_key       = "*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.billing"
  }
}
