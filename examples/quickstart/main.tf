terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

# Broker: RABBITMQ_ENDPOINT, RABBITMQ_USERNAME and RABBITMQ_PASSWORD, or guest at http://127.0.0.1:15672.
provider "rabbitmqdelay" {}

resource "rabbitmqdelay_cascade" "orders" {
  name = "orders" # any delay up to 30 days, to the second
}

data "rabbitmqdelay_cascade" "orders" {
  entry_exchange = rabbitmqdelay_cascade.orders.entry_exchange
}

# From the data source: if an apply is refused, Terraform still saves what it planned of the resource.
output "publisher" {
  value = jsonencode(data.rabbitmqdelay_cascade.orders.publisher)
}
