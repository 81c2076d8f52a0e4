terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

variable "vhost" {
  type = string
}

resource "rabbitmqdelay_cascade" "units" {
  vhost     = var.vhost
  name      = "orders"
  max_delay = "10s"
}

resource "rabbitmqdelay_cascade" "uniform" {
  vhost           = var.vhost
  name            = "tasks"
  base            = 10
  levels          = 2
  resolution      = "100ms"
  lookahead       = 1
  queue_type      = "classic"
  queue_arguments = { x-queue-mode = "lazy" }
  force_destroy   = true
}

resource "rabbitmqdelay_cascade" "preset" {
  vhost  = var.vhost
  preset = "celery"
}

resource "rabbitmqdelay_ladder" "retry" {
  vhost  = var.vhost
  name   = "retry"
  delays = ["5s", "1m"]
}

resource "rabbitmqdelay_destination" "audit" {
  vhost             = var.vhost
  delivery_exchange = rabbitmqdelay_cascade.units.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.units.units)
  address           = "audit"
  exchange          = rabbitmqdelay_ladder.retry.delivery_exchange
}

data "rabbitmqdelay_cascade" "units" {
  vhost          = var.vhost
  entry_exchange = rabbitmqdelay_cascade.units.entry_exchange
}
