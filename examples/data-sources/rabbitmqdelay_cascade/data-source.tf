data "rabbitmqdelay_cascade" "tasks" {
  entry_exchange = "tasks.delay-16"
}

check "tasks_are_delayed_as_declared" {
  assert {
    condition = length(data.rabbitmqdelay_cascade.tasks.findings) == 0
    error_message = join("\n", [
      for f in data.rabbitmqdelay_cascade.tasks.findings : "${f.severity}: ${f.cause} on ${f.object}: ${f.effect}"
    ])
  }

  assert {
    condition     = coalesce(data.rabbitmqdelay_cascade.tasks.unroutable_messages, 0) == 0
    error_message = "Messages with a malformed key or without an address wait in tasks.unroutable."
  }
}

# For a team with a state of its own: what its application needs to compute keys.
output "publisher" {
  value = jsonencode(data.rabbitmqdelay_cascade.tasks.publisher)
}
