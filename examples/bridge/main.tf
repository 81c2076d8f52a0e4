terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

resource "rabbitmqdelay_cascade" "tasks" {
  name       = "tasks"
  base       = 10
  levels     = 7
  resolution = "1s"
}

# For each queue that was bound to the exchange of the plugin, under its old binding key.
resource "rabbitmqdelay_destination" "billing" {
  delivery_exchange = rabbitmqdelay_cascade.tasks.delivery_exchange
  levels            = rabbitmqdelay_cascade.tasks.levels
  address           = "billing"
  queue             = "billing"
}

output "publisher" {
  value = jsonencode(rabbitmqdelay_cascade.tasks.publisher)
}
