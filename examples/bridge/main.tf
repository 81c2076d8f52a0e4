terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

resource "rabbitmqdelay_cascade" "orders" {
  name      = "orders"
  max_delay = "50d" # the plugin has at most 49 days and 17 hours
}

# For each queue that was bound to the exchange of the plugin, under its old binding key.
resource "rabbitmqdelay_destination" "billing" {
  delivery_exchange = rabbitmqdelay_cascade.orders.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.orders.units)
  address           = "billing"
  queue             = "billing"
}

data "rabbitmqdelay_cascade" "orders" {
  entry_exchange = rabbitmqdelay_cascade.orders.entry_exchange
}

# From the data source: if an apply is refused, Terraform still saves what it planned of the resource.
output "publisher" {
  value = jsonencode(data.rabbitmqdelay_cascade.orders.publisher)
}
