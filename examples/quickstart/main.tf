terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

# Broker: RABBITMQ_ENDPOINT, RABBITMQ_USERNAME and RABBITMQ_PASSWORD, or guest at http://127.0.0.1:15672.
provider "rabbitmqdelay" {}

resource "rabbitmqdelay_cascade" "tasks" {
  vhost  = "/"
  name   = "tasks"
  base   = 10
  levels = 8 # any delay up to 99,999,999 s, three years, to the second
}

data "rabbitmqdelay_cascade" "tasks" {
  vhost          = rabbitmqdelay_cascade.tasks.vhost
  entry_exchange = rabbitmqdelay_cascade.tasks.entry_exchange
}

# Not of the resource: Terraform would save its planned value even if the apply is refused.
output "publisher" {
  value = jsonencode(data.rabbitmqdelay_cascade.tasks.publisher)
}
