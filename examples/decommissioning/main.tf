# How many messages wait in a cascade, and by when they arrive.
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

output "left" {
  value = {
    messages   = data.rabbitmqdelay_cascade.orders.messages
    unroutable = data.rabbitmqdelay_cascade.orders.unroutable_messages
    next       = data.rabbitmqdelay_cascade.orders.next_arrival
    until      = data.rabbitmqdelay_cascade.orders.latest_arrival
  }
}

# The delay queues, the longest delay first, as a path of the management API has their names.
output "queues" {
  value = join("\n", reverse([for queue in data.rabbitmqdelay_cascade.orders.queues : urlencode(queue.name)]))
}
