# A configuration of its own, for a scheduled plan: is the cascade as it was declared, and do
# messages arrive? In one configuration with the cascade, a plan that repairs it looks only after
# the repair.
terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

variable "vhost" {
  type    = string
  default = "/"
}

data "rabbitmqdelay_cascade" "orders" {
  vhost          = var.vhost
  entry_exchange = "orders.d.h.m.s"
}

check "orders_are_delayed_as_declared" {
  assert {
    condition = alltrue([for f in data.rabbitmqdelay_cascade.orders.findings : f.severity == "info"])
    error_message = join("\n", [
      for f in data.rabbitmqdelay_cascade.orders.findings : "${f.severity}: ${f.cause}, ${f.object}: ${f.effect}"
      if f.severity != "info"
    ])
  }

  assert {
    condition     = coalesce(data.rabbitmqdelay_cascade.orders.unroutable_messages, 0) == 0
    error_message = "Messages with a malformed key or without an address wait in orders.unroutable."
  }
}

check "orders_arrive" {
  data "rabbitmqdelay_probe" "orders" {
    vhost          = var.vhost
    entry_exchange = "orders.d.h.m.s"
    delay          = "1s"
  }

  assert {
    condition = (
      data.rabbitmqdelay_probe.orders.lateness_ms >= 0 &&
      data.rabbitmqdelay_probe.orders.lateness_ms < 5000
    )
    error_message = "A message for 1 s arrived after ${data.rabbitmqdelay_probe.orders.measured_delay}."
  }
}
