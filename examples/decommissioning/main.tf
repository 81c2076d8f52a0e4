# How many messages wait in a cascade, and until when at the longest.
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

data "rabbitmqdelay_cascade" "tasks" {
  vhost          = var.vhost
  entry_exchange = "tasks.delay-07"
}

output "left" {
  value = {
    messages   = data.rabbitmqdelay_cascade.tasks.messages
    unroutable = data.rabbitmqdelay_cascade.tasks.unroutable_messages
    until = try(reverse(sort([
      for queue in data.rabbitmqdelay_cascade.tasks.queues : queue.latest_arrival if queue.latest_arrival != null
    ]))[0], null)
  }
}
