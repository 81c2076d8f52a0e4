# The module on a broker: that of RABBITMQ_ENDPOINT, RABBITMQ_USERNAME and RABBITMQ_PASSWORD. When the test
# is over, the cascade is destroyed.
provider "rabbitmqdelay" {}

variables {
  name      = "terraform-test"
  levels    = 2
  receivers = ["billing", "mails.urgent"]
}

# Everything is known before anything is created.
run "plan" {
  command = plan

  assert {
    condition     = rabbitmqdelay_cascade.this.queues["terraform-test.delays.delay-01-9"].message_ttl == 90000
    error_message = "A message with the digit 9 does not wait for 90 s at the highest level."
  }
}

run "apply" {
  assert {
    condition     = output.publisher.entry_exchange == "terraform-test.delays.delay-01"
    error_message = "Publishers are sent to ${output.publisher.entry_exchange}."
  }
  assert {
    condition     = output.receive_from.keys["mails.urgent"] == "*.*.mails.urgent"
    error_message = "Receivers are told to bind ${jsonencode(output.receive_from.keys)}."
  }
}

# One level more, in place.
run "resize" {
  variables {
    levels = 3
  }

  assert {
    condition     = output.publisher.entry_exchange == "terraform-test.delays.delay-02"
    error_message = "Publishers are sent to ${output.publisher.entry_exchange}."
  }
}
