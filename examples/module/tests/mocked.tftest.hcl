# What the module does with its variables, without a broker. A mocked provider makes up what it computes.
mock_provider "rabbitmqdelay" {
  mock_data "rabbitmqdelay_cascade" {
    defaults = {
      publisher         = { entry_exchange = "the entry", units_ms = [100000, 10000, 1000], max_delay_ms = 999000 }
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

run "too_short" {
  command = plan

  variables {
    levels = 1
  }
  expect_failures = [var.levels]
}
