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

output "publisher" {
  value = jsonencode(rabbitmqdelay_cascade.tasks.publisher)
}
