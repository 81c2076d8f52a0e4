# For new applications: any delay up to three years, to the second. An hour is the key
# 0.0.0.0.3.6.0.0.<address>.
resource "rabbitmqdelay_cascade" "reminders" {
  name   = "reminders"
  base   = 10
  levels = 8
}

# What publishers need to compute keys, as JSON. Not of the resource: Terraform would save its
# planned value even if the apply is refused.
data "rabbitmqdelay_cascade" "reminders" {
  entry_exchange = rabbitmqdelay_cascade.reminders.entry_exchange
}

output "publisher" {
  value = jsonencode(data.rabbitmqdelay_cascade.reminders.publisher)
}

# For publishers that exist, in base 2: any delay up to 36 h 24 min 31 s, to the second.
resource "rabbitmqdelay_cascade" "tasks" {
  name   = "tasks"
  levels = 17
}

# Up to a minute in steps of 100 ms, in a vhost of its own, with back-pressure. A queue that holds
# 100,000 messages refuses further ones. A destroy waits up to two minutes for the last of them.
resource "rabbitmqdelay_cascade" "retries" {
  name          = "retries"
  vhost         = "orders"
  max_delay     = "1m"
  resolution    = "100ms"
  max_length    = 100000
  drain_timeout = "2m"
}

# With names of its own, in front of a topic exchange that is there already.
resource "rabbitmqdelay_cascade" "billing" {
  name                     = "billing"
  levels                   = 12
  exchange_name            = "billing.wait.%d"
  queue_name               = "billing.wait.%d.queue"
  delivery_exchange        = "billing.events"
  create_delivery_exchange = false
  queue_type               = "classic"
}
