# { delay = "1h", address = "billing" }, in base 10
output "hour" {
  value = provider::rabbitmqdelay::parse_routing_key("0.0.0.0.3.6.0.0.billing", 8, "1s", 10)
}

# { delay = "10s", address = "billing" }, in base 2
output "message" {
  value = provider::rabbitmqdelay::parse_routing_key("1.0.1.0.billing", 4)
}
