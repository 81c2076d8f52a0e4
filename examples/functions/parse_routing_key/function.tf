# { delay = "10s", destination = "billing" }
output "message" {
  value = provider::rabbitmqdelay::parse_routing_key("1.0.1.0.billing", 4)
}
