terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

resource "rabbitmqdelay_cascade" "tasks" {
  name      = "tasks"
  max_delay = "50d" # the plugin has at most 49 days and 17 hours
}

# For each queue that was bound to the exchange of the plugin, under its old binding key.
resource "rabbitmqdelay_destination" "billing" {
  delivery_exchange = rabbitmqdelay_cascade.tasks.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.tasks.units)
  address           = "billing"
  queue             = "billing"
}

data "rabbitmqdelay_cascade" "tasks" {
  entry_exchange = rabbitmqdelay_cascade.tasks.entry_exchange
}

# Not of the resource: Terraform would save its planned value even if the apply is refused.
output "publisher" {
  value = jsonencode(data.rabbitmqdelay_cascade.tasks.publisher)
}
