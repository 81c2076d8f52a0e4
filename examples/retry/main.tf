# What fails is tried again after 5 s, 30 s, 5 min and 1 h. The worker's queue is bound to the
# delivery exchange; the worker publishes what failed to the entry exchange, with the next delay.
terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

resource "rabbitmqdelay_ladder" "retry" {
  name   = "retry"
  delays = ["5s", "30s", "5m", "1h"]
}
