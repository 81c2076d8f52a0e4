terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

resource "rabbitmqdelay_cascade" "tasks" {
  name = "tasks"
}

resource "rabbitmqdelay_destination" "jobs" {
  delivery_exchange = rabbitmqdelay_cascade.tasks.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.tasks.units)
  address           = "jobs"
  queue             = "jobs"
}

data "rabbitmqdelay_cascade" "tasks" {
  entry_exchange = rabbitmqdelay_cascade.tasks.entry_exchange
}

# From the data source: if an apply is refused, Terraform still saves what it planned of the resource.
output "publisher" {
  value = jsonencode(data.rabbitmqdelay_cascade.tasks.publisher)
}
