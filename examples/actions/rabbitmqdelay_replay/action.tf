# Runs on request only: terraform apply -invoke=action.rabbitmqdelay_replay.orders
action "rabbitmqdelay_replay" "orders" {
  config {
    entry_exchange = "orders.d.h.m.s"
  }
}
