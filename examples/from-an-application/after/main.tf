# The same cascade, after the application has stopped declaring it: with replicas, parking and all
# that is the default.
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

resource "rabbitmqdelay_cascade" "sendtask" {
  vhost             = var.vhost
  name              = "SENDTASK" # parks in SENDTASK.unroutable
  levels            = 4
  exchange_name     = "EXCHANGE.TOPIC.SENDTASK.N%d"
  queue_name        = "QUEUE.DELAY.SENDTASK.N%d"
  delivery_exchange = "EXCHANGE.DELAY.DIRECT.SENDTASK"
  drain_timeout     = "10m"
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

# Not of the resource: Terraform would save its planned value even if the apply is refused.
output "publisher" {
  value = jsonencode(data.rabbitmqdelay_cascade.sendtask.publisher)
}
