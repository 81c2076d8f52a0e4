# What an application declares when it starts, imported as it is.
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

import {
  to = rabbitmqdelay_cascade.sendtask
  id = "${urlencode(var.vhost)}/EXCHANGE.TOPIC.SENDTASK.N3"
}

resource "rabbitmqdelay_cascade" "sendtask" {
  vhost             = var.vhost
  levels            = 4
  exchange_name     = "EXCHANGE.TOPIC.SENDTASK.N%d"
  queue_name        = "QUEUE.DELAY.SENDTASK.N%d"
  delivery_exchange = "EXCHANGE.DELAY.DIRECT.SENDTASK"
  queue_type        = "classic"
  lookahead         = 1
  strict_keys       = false
  park_unroutable   = false
}

# The binding of the receiver's queue: exchange, queue, and the key "#.d".
import {
  to = rabbitmqdelay_destination.sendtask
  id = "${urlencode(var.vhost)}/EXCHANGE.DELAY.DIRECT.SENDTASK/queue/QUEUE.SENDTASK/%23.d"
}

resource "rabbitmqdelay_destination" "sendtask" {
  vhost             = var.vhost
  delivery_exchange = rabbitmqdelay_cascade.sendtask.delivery_exchange
  match             = "suffix"
  address           = "d"
  queue             = "QUEUE.SENDTASK"
}

data "rabbitmqdelay_cascade" "sendtask" {
  vhost          = rabbitmqdelay_cascade.sendtask.vhost
  entry_exchange = rabbitmqdelay_cascade.sendtask.entry_exchange
}

# The application takes the environment variable PUBLISHER from here. The value is the data
# source's: if an apply is refused, Terraform still saves what it planned of the resource.
output "publisher" {
  value = jsonencode(data.rabbitmqdelay_cascade.sendtask.publisher)
}
