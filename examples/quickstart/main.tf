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

# Not of the resource: Terraform would save its planned value even if the apply is refused.
output "publisher" {
  value = jsonencode(data.rabbitmqdelay_cascade.orders.publisher)
}
