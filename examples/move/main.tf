# One cascade on two brokers, for a move from the old one to the new one.
terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

variable "old" {
  type      = object({ endpoint = string, username = string, password = string })
  sensitive = true
}

variable "new" {
  type      = object({ endpoint = string, username = string, password = string })
  sensitive = true
}

variable "vhost" {
  type    = string
  default = "/"
}

provider "rabbitmqdelay" {
  alias    = "old"
  endpoint = var.old.endpoint
  username = var.old.username
  password = var.old.password
}

provider "rabbitmqdelay" {
  alias    = "new"
  endpoint = var.new.endpoint
  username = var.new.username
  password = var.new.password
}

resource "rabbitmqdelay_cascade" "old" {
  provider  = rabbitmqdelay.old
  vhost     = var.vhost
  name      = "orders"
  max_delay = "30d"
}

resource "rabbitmqdelay_destination" "old" {
  provider          = rabbitmqdelay.old
  vhost             = var.vhost
  delivery_exchange = rabbitmqdelay_cascade.old.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.old.units)
  address           = "billing"
  queue             = "billing"
}

resource "rabbitmqdelay_cascade" "new" {
  provider  = rabbitmqdelay.new
  vhost     = var.vhost
  name      = "orders"
  max_delay = "30d"
}

resource "rabbitmqdelay_destination" "new" {
  provider          = rabbitmqdelay.new
  vhost             = var.vhost
  delivery_exchange = rabbitmqdelay_cascade.new.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.new.units)
  address           = "billing"
  queue             = "billing"
}

data "rabbitmqdelay_cascade" "old" {
  provider       = rabbitmqdelay.old
  vhost          = var.vhost
  entry_exchange = rabbitmqdelay_cascade.old.entry_exchange
  depends_on     = [rabbitmqdelay_cascade.old]
}

# What waits on the old broker, and until when at the longest.
output "left" {
  value = {
    messages = data.rabbitmqdelay_cascade.old.messages
    until    = data.rabbitmqdelay_cascade.old.latest_arrival
  }
}

# What move.py has to know: the queues, the longest delay first, and how the new cascade writes a delay.
output "move" {
  value = jsonencode({
    units_ms = data.rabbitmqdelay_cascade.old.publisher.units_ms
    queues   = reverse(data.rabbitmqdelay_cascade.old.queues)
    to       = rabbitmqdelay_cascade.new.publisher
  })
}
