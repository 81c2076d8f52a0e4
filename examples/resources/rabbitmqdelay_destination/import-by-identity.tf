import {
  to = rabbitmqdelay_destination.billing
  identity = {
    vhost             = "/"
    delivery_exchange = "orders.delivery"
    queue             = "billing"
    routing_key       = "*.*.*.*.billing"
  }
}
