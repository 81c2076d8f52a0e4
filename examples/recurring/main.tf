# Occurrences wait in a cascade: any time up to 30 days away, to the second.
terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

resource "rabbitmqdelay_cascade" "recurring" {
  name = "recurring"
}

data "rabbitmqdelay_cascade" "recurring" {
  entry_exchange = rabbitmqdelay_cascade.recurring.entry_exchange
}

# Not of the resource: Terraform would save its planned value even if the apply is refused.
output "publisher" {
  value = jsonencode(data.rabbitmqdelay_cascade.recurring.publisher)
}
