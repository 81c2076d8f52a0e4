terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

# Endpoint, user name and password come from RABBITMQ_ENDPOINT, RABBITMQ_USERNAME and RABBITMQ_PASSWORD.
provider "rabbitmqdelay" {}

resource "rabbitmqdelay_cascade" "demo" {
  name   = "demo"
  levels = 4 # any delay up to 15 s, to the second
}

output "entry_exchange" {
  value = rabbitmqdelay_cascade.demo.entry_exchange
}

output "delivery_exchange" {
  value = rabbitmqdelay_cascade.demo.delivery_exchange
}
