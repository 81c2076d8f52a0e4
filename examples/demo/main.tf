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
  name   = "demo"
  base   = 10
  levels = 2 # any delay up to 99 s, to the second
}

output "delivery_exchange" {
  value = rabbitmqdelay_cascade.demo.delivery_exchange
}

# What publishers need to compute routing keys.
output "publisher" {
  value = rabbitmqdelay_cascade.demo.publisher
}
