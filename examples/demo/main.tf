terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

# Endpoint, user name and password come from RABBITMQ_ENDPOINT, RABBITMQ_USERNAME and
# RABBITMQ_PASSWORD.
provider "rabbitmqdelay" {}

resource "rabbitmqdelay_cascade" "demo" {
  name      = "demo"
  max_delay = "15s" # for a short plan; without it, any delay up to 30 days
}

output "delivery_exchange" {
  value = rabbitmqdelay_cascade.demo.delivery_exchange
}

data "rabbitmqdelay_cascade" "demo" {
  entry_exchange = rabbitmqdelay_cascade.demo.entry_exchange
}

# What publishers need to compute routing keys, from the data source: if an apply is refused,
# Terraform still saves what it planned of the resource.
output "publisher" {
  value = data.rabbitmqdelay_cascade.demo.publisher
}
