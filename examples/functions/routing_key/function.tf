# "0.0.0.0.3.6.0.0.billing", in base 10: the seconds, digit by digit
output "hour" {
  value = provider::rabbitmqdelay::routing_key("1h", 8, "billing", "1s", 10)
}

# In steps of 100 ms; 1.65 s is rounded up to 1.7 s: "0.0.1.7.billing"
output "fine" {
  value = provider::rabbitmqdelay::routing_key("1.65s", 4, "billing", "100ms", 10)
}

# "1.0.1.0.billing", in base 2
output "ten_seconds" {
  value = provider::rabbitmqdelay::routing_key("10s", 4, "billing")
}
