# What the module does with its variables, without a broker. A mocked provider makes up what it computes.
mock_provider "rabbitmqdelay" {
  mock_data "rabbitmqdelay_cascade" {
    defaults = {
      publisher         = { entry_exchange = "the entry", units_ms = [60000, 1000], max_delay_ms = 119000 }
      delivery_exchange = "the delivery"
    }
  }
}

variables {
  name = "shop"
}

run "names" {
  assert {
    condition     = rabbitmqdelay_cascade.this.name == "shop.delays"
    error_message = "The cascade is named ${rabbitmqdelay_cascade.this.name}."
  }
  assert {
    condition     = output.publisher.entry_exchange == "the entry" && output.receive_from.exchange == "the delivery"
    error_message = "Publishers are sent to ${output.publisher.entry_exchange}, receivers to ${output.receive_from.exchange}."
  }
}

run "no_duration" {
  command = plan

  variables {
    max_delay = "90 days"
  }
  expect_failures = [var.max_delay]
}
