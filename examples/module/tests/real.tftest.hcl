# The module on a broker: that of RABBITMQ_ENDPOINT, RABBITMQ_USERNAME and RABBITMQ_PASSWORD. When the test
# is over, the cascade is destroyed.
provider "rabbitmqdelay" {}

variables {
  name      = "terraform-test"
  max_delay = "9s"
  receivers = ["billing", "mails.urgent"]
}

# Everything is known before anything is created.
run "plan" {
  command = plan

  assert {
    condition     = rabbitmqdelay_cascade.this.queues["terraform-test.delays.9s"].message_ttl == 9000
    error_message = "A message with nine seconds does not wait for 9 s."
  }
}

run "apply" {
  assert {
    condition     = output.publisher.entry_exchange == "terraform-test.delays.d.h.m.s"
    error_message = "Publishers are sent to ${output.publisher.entry_exchange}."
  }
  assert {
    condition     = output.receive_from.keys["mails.urgent"] == "*.*.*.*.mails.urgent"
    error_message = "Receivers are told to bind ${jsonencode(output.receive_from.keys)}."
  }
}

# Longer delays, in place: publishers go on as they are.
run "grow" {
  variables {
    max_delay = "1m"
  }

  assert {
    condition     = output.publisher.entry_exchange == "terraform-test.delays.d.h.m.s"
    error_message = "Publishers are sent to ${output.publisher.entry_exchange}."
  }
  assert {
    condition     = output.publisher.max_delay_ms == 119000
    error_message = "The longest delay is ${output.publisher.max_delay_ms} ms."
  }
}
