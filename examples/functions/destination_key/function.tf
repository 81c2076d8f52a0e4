# "*.*.*.*.billing", the key to bind the queue of the receiver to the delivery exchange with. It is
# the same whatever the units are.
output "billing" {
  value = provider::rabbitmqdelay::destination_key(4, "billing")
}
