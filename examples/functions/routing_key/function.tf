resource "rabbitmqdelay_cascade" "orders" {
  name = "orders"
}

# "0.1.30.0.billing": no days, one hour, 30 minutes, no seconds
output "invoice" {
  value = provider::rabbitmqdelay::routing_key("1h30m", rabbitmqdelay_cascade.orders.publisher, "billing")
}

# Without a cascade at hand, in hours, minutes and seconds: "1.30.0.billing"
output "reminder" {
  value = provider::rabbitmqdelay::routing_key("1h30m", {
    entry_exchange = "reminders.h.m.s"
    units_ms       = [3600000, 60000, 1000]
    max_delay_ms   = 89999000 # 24 hours, 59 minutes and 59 seconds
  }, "billing")
}
