# "1.0.1.0.billing"
output "ten_seconds" {
  value = provider::rabbitmqdelay::routing_key("10s", 4, "billing")
}

# In steps of 100 ms; 1.65 s is rounded up to 1.7 s: "1.0.0.0.1.billing"
output "fine" {
  value = provider::rabbitmqdelay::routing_key("1.65s", 5, "billing", "100ms")
}
