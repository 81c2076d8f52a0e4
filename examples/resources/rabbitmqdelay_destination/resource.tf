resource "rabbitmqdelay_cascade" "orders" {
  name = "orders"
}

# The queue "billing" gets the messages that are published with a key such as "0.1.30.0.billing".
resource "rabbitmqdelay_destination" "billing" {
  delivery_exchange = rabbitmqdelay_cascade.orders.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.orders.units)
  address           = "billing"
  queue             = "billing"
}

# The same. Before the binding goes, messages on their way have ten minutes to arrive. It is bound
# again at once when a change replaces the cascade together with its delivery exchange.
resource "rabbitmqdelay_destination" "reminders" {
  delivery_exchange = rabbitmqdelay_cascade.orders.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.orders.units)
  address           = "reminders"
  queue             = "reminders"
  drain_timeout     = "10m"
  triggers          = { cascade = sha1(jsonencode(rabbitmqdelay_cascade.orders.queues)) }
}

# Another address, handed on to an exchange, which sees the routing key with its delay.
resource "rabbitmqdelay_destination" "mails" {
  delivery_exchange = rabbitmqdelay_cascade.orders.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.orders.units)
  address           = "mails.urgent"
  exchange          = "mails"
}

# The messages of a ladder: those that are published with a key such as "30s.billing".
resource "rabbitmqdelay_ladder" "retry" {
  name   = "retry"
  delays = ["30s", "5m", "1h"]
}

resource "rabbitmqdelay_destination" "retries" {
  delivery_exchange = rabbitmqdelay_ladder.retry.delivery_exchange
  levels            = rabbitmqdelay_ladder.retry.levels
  address           = "billing"
  queue             = "billing"
}

# An endpoint as NServiceBus binds it: it also takes messages for "Company.Sales".
resource "rabbitmqdelay_destination" "sales" {
  delivery_exchange = "nsb.v2.delay-delivery"
  match             = "suffix"
  address           = "Sales"
  exchange          = "Sales"
}
