resource "rabbitmqdelay_cascade" "orders" {
  name = "orders"
}

# "0.1.30.0.billing": no days, one hour, 30 minutes, no seconds
output "invoice" {
  value = provider::rabbitmqdelay::routing_key("1h30m", rabbitmqdelay_cascade.orders.publisher, "billing")
}

# In base 10 and without a cascade at hand: "0.0.0.0.5.4.0.0.billing", 5,400 seconds, digit by digit
output "digits" {
  value = provider::rabbitmqdelay::routing_key("1h30m", {
    entry_exchange = "tasks.delay-07"
    units_ms       = [for power in range(7, -1, -1) : 1000 * pow(10, power)]
    max_delay_ms   = 99999999000
  }, "billing")
}
