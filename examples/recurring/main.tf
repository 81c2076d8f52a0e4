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

# From the data source: if an apply is refused, Terraform still saves what it planned of the resource.
output "publisher" {
  value = jsonencode(data.rabbitmqdelay_cascade.recurring.publisher)
}
