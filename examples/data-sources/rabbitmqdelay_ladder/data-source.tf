data "rabbitmqdelay_ladder" "retry" {
  entry_exchange = "retry.entry"
}

check "retries_are_delayed_as_declared" {
  assert {
    condition = alltrue([for f in data.rabbitmqdelay_ladder.retry.findings : f.severity == "info"])
    error_message = join("\n", [
      for f in data.rabbitmqdelay_ladder.retry.findings : "${f.severity}: ${f.cause} on ${f.object}: ${f.effect}"
      if f.severity != "info"
    ])
  }
}

# How many messages wait for each delay.
output "retries" {
  value = { for q in data.rabbitmqdelay_ladder.retry.queues : q.delay => q.messages }
}
