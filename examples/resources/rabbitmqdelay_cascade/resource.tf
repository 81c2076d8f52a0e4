# Any delay up to 30 days, to the second. The key 0.1.30.0.<address> waits an hour and a half.
resource "rabbitmqdelay_cascade" "orders" {
  name = "orders"
}

# What publishers need to compute keys, as JSON, from the data source.
# If an apply is refused, Terraform still saves what it planned of the resource.
data "rabbitmqdelay_cascade" "orders" {
  entry_exchange = rabbitmqdelay_cascade.orders.entry_exchange
}

output "publisher" {
  value = jsonencode(data.rabbitmqdelay_cascade.orders.publisher)
}

# Up to a minute in steps of 100 ms, in a vhost of its own, with back-pressure. A queue that holds
# 100,000 messages refuses further ones. A destroy waits up to two minutes for the last of them.
resource "rabbitmqdelay_cascade" "retries" {
  name          = "retries"
  vhost         = "orders"
  units         = ["1s", "100ms"]
  max_delay     = "1m"
  max_length    = 100000
  drain_timeout = "2m"
}

# For publishers that exist, in base 2: any delay up to 36 h 24 min 31 s, to the second.
resource "rabbitmqdelay_cascade" "tasks" {
  name   = "tasks"
  levels = 17
}

# With names of its own, in front of a topic exchange that is there already.
resource "rabbitmqdelay_cascade" "billing" {
  name                     = "billing"
  exchange_name            = "billing.wait.%s"
  queue_name               = "billing.wait.%s.queue"
  delivery_exchange        = "billing.events"
  create_delivery_exchange = false
  queue_type               = "classic"
}
