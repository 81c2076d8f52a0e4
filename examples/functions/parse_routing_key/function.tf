resource "rabbitmqdelay_cascade" "orders" {
  name = "orders"
}

# { delay = "1h", address = "billing" }
output "message" {
  value = provider::rabbitmqdelay::parse_routing_key("0.1.0.0.billing", rabbitmqdelay_cascade.orders.publisher)
}
