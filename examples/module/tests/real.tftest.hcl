# The module on a broker: that of RABBITMQ_ENDPOINT, RABBITMQ_USERNAME and RABBITMQ_PASSWORD. When the test
# is over, the cascade is destroyed.
provider "rabbitmqdelay" {}

variables {
  name      = "terraform-test"
  levels    = 4
  receivers = ["billing", "mails.urgent"]
}

# Everything is known before anything is created.
run "plan" {
  command = plan

  assert {
    condition     = rabbitmqdelay_cascade.this.queues["terraform-test.delays.delay-03"].message_ttl == 8000
    error_message = "A message does not wait for 8 s at the highest level."
  }
}

run "apply" {
  assert {
    condition     = output.publish_to == "terraform-test.delays.delay-03"
    error_message = "Publishers are sent to ${output.publish_to}."
  }
  assert {
    condition     = output.receive_from.keys["mails.urgent"] == "*.*.*.*.mails.urgent"
    error_message = "Receivers are told to bind ${jsonencode(output.receive_from.keys)}."
  }
}

# One level more, in place of what is there.
run "resize" {
  variables {
    levels = 5
  }

  assert {
    condition     = output.publish_to == "terraform-test.delays.delay-04"
    error_message = "Publishers are sent to ${output.publish_to}."
  }
}
