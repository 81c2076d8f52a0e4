# Occurrences wait in a cascade: any time up to three years away, to the second.
terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

resource "rabbitmqdelay_cascade" "recurring" {
  name   = "recurring"
  base   = 10
  levels = 8
}

output "publisher" {
  value = jsonencode(rabbitmqdelay_cascade.recurring.publisher)
}
