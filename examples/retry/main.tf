# What fails is tried again after 5 s, 30 s, 5 min and 1 h. The worker publishes what failed to the entry exchange, with
# the next delay as the key. After that delay, the message is back in the queue "orders".
terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

resource "rabbitmqdelay_ladder" "retry" {
  name             = "orders.retry"
  delays           = ["5s", "30s", "5m", "1h"]
  deliver_to_queue = "orders"
}

data "rabbitmqdelay_ladder" "retry" {
  entry_exchange = rabbitmqdelay_ladder.retry.entry_exchange
}

# From the data source: if an apply is refused, Terraform still saves what it planned of the resource.
output "publisher" {
  value = jsonencode(data.rabbitmqdelay_ladder.retry.publisher)
}
