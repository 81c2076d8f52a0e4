# What fails is tried again after 5 s, 30 s, 5 min and 1 h. The worker publishes what failed to the exchange
# "orders.retry.entry", with the next delay as the key. The message waits in a queue such as "orders.retry.5s".
# Then it is back in the queue "orders". The worker reads the delay off these names.
terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

resource "rabbitmqdelay_ladder" "retry" {
  name             = "orders.retry"
  queue_name       = "orders.retry.%s"
  delays           = ["5s", "30s", "5m", "1h"]
  deliver_to_queue = "orders"
}
