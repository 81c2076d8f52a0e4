resource "rabbitmqdelay_cascade" "tasks" {
  name   = "tasks"
  base   = 10
  levels = 8
}

# { delay = "1h", address = "billing" }
output "message" {
  value = provider::rabbitmqdelay::parse_routing_key("0.0.0.0.3.6.0.0.billing", rabbitmqdelay_cascade.tasks.publisher)
}
