resource "rabbitmqdelay_cascade" "orders" {
  name = "orders"
}

# "*.*.*.*.billing", the key to bind the queue of the receiver to the delivery exchange with
output "billing" {
  value = provider::rabbitmqdelay::destination_key(length(rabbitmqdelay_cascade.orders.units), "billing")
}
