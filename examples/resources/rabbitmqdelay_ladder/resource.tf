# The usual steps of a retry: publish to "retry.entry" with a key such as "30s.orders".
resource "rabbitmqdelay_ladder" "retry" {
  name   = "retry"
  delays = ["5s", "10s", "30s", "1m", "5m", "10m", "30m", "1h"]
}

# The eighteen delay levels of RocketMQ.
resource "rabbitmqdelay_ladder" "rocketmq" {
  name = "rocketmq"
  delays = [
    "1s", "5s", "10s", "30s", "1m", "2m", "3m", "4m", "5m", "6m", "7m", "8m", "9m", "10m", "20m", "30m", "1h", "2h",
  ]
}

# A single delay in front of an exchange of any type: orders that are not paid are closed after half
# an hour. Every message leaves with the key "order.close.queue", whatever it was published with.
resource "rabbitmqdelay_ladder" "unpaid" {
  name                     = "order"
  delays                   = ["30m"]
  queue_name               = "order.delay.queue"
  delivery_exchange        = "order.close.exchange"
  create_delivery_exchange = false
  dead_letter_routing_key  = "order.close.queue"
  park_unroutable          = false
}
