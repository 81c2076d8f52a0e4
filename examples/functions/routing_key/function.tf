resource "rabbitmqdelay_cascade" "tasks" {
  name   = "tasks"
  base   = 10
  levels = 8
}

# "0.0.0.0.5.4.0.0.billing": 5,400 seconds, digit by digit
output "invoice" {
  value = provider::rabbitmqdelay::routing_key("1h30m", rabbitmqdelay_cascade.tasks.publisher, "billing")
}

# In days, hours, minutes and seconds, without a cascade at hand: "0.1.30.0.billing"
output "words" {
  value = provider::rabbitmqdelay::routing_key("1h30m", {
    entry_exchange = "orders.d.h.m.s"
    units_ms       = [86400000, 3600000, 60000, 1000]
    max_delay_ms   = 2678399000
  }, "billing")
}
