data "rabbitmqdelay_cascade" "orders" {
  entry_exchange = "orders.d.h.m.s"
}

check "orders_are_delayed_as_declared" {
  assert {
    condition = alltrue([for f in data.rabbitmqdelay_cascade.orders.findings : f.severity == "info"])
    error_message = join("\n", [
      for f in data.rabbitmqdelay_cascade.orders.findings : "${f.severity}: ${f.cause} on ${f.object}: ${f.effect}"
      if f.severity != "info"
    ])
  }

  assert {
    condition     = coalesce(data.rabbitmqdelay_cascade.orders.unroutable_messages, 0) == 0
    error_message = "Messages with a malformed key or without an address wait in orders.unroutable."
  }
}

# For a team with a state of its own: what its application needs to compute keys.
output "publisher" {
  value = jsonencode(data.rabbitmqdelay_cascade.orders.publisher)
}
