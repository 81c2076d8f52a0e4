# What Prometheus cannot read off RabbitMQ, for each cascade and ladder to watch: which queues it
# has, and when their messages are due.
#
#   terraform output -raw prometheus_facts > facts.yml
terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

resource "rabbitmqdelay_cascade" "orders" {
  name       = "orders"
  max_length = 100000
}

resource "rabbitmqdelay_destination" "billing" {
  delivery_exchange = rabbitmqdelay_cascade.orders.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.orders.units)
  address           = "billing"
  queue             = "billing"
}

resource "rabbitmqdelay_ladder" "retry" {
  name       = "retry"
  delays     = ["5s", "1m"]
  max_length = 100000
}

resource "rabbitmqdelay_destination" "retried_billing" {
  delivery_exchange = rabbitmqdelay_ladder.retry.delivery_exchange
  levels            = rabbitmqdelay_ladder.retry.levels
  address           = "billing"
  queue             = "billing"
}

locals {
  job = "rabbitmq-detailed" # as in prometheus.yml

  cascades = {
    orders = rabbitmqdelay_cascade.orders
  }
  ladders = {
    retry = rabbitmqdelay_ladder.retry
  }
  receivers = [
    { kind = "cascade", name = "orders", vhost = rabbitmqdelay_destination.billing.vhost, queue = rabbitmqdelay_destination.billing.queue },
    { kind = "ladder", name = "retry", vhost = rabbitmqdelay_destination.retried_billing.vhost, queue = rabbitmqdelay_destination.retried_billing.queue },
  ]

  entries = concat(
    [for name, c in local.cascades : { kind = "cascade", name = name, vhost = c.vhost, exchange = c.entry_exchange }],
    [for name, l in local.ladders : { kind = "ladder", name = name, vhost = l.vhost, exchange = l.entry_exchange }],
  )
  queues = concat(local.cascade_queues, local.ladder_queues)

  cascade_queues = flatten([
    for name, c in local.cascades : [
      for queue, q in c.queues : {
        labels = { job = local.job, kind = "cascade", name = name, vhost = c.vhost, queue = queue }
        info = {
          role       = q.level == null ? "unroutable" : "delay"
          level      = q.level == null ? "" : format("%02d", q.level)
          queue_type = coalesce(q.type, c.queue_type)
        }
        # What waits now is due at the latest after the TTL of its queue and the longest delay of
        # the levels below. That is the unit of its level less the last unit.
        due_ms = q.level == null ? null : (q.message_ttl
        + reverse(c.publisher.units_ms)[q.level] - reverse(c.publisher.units_ms)[0])
        max_length = q.level == null ? null : c.max_length
      }
    ]
  ])

  ladder_queues = flatten([
    for name, l in local.ladders : [
      for queue, q in l.queues : {
        labels = { job = local.job, kind = "ladder", name = name, vhost = l.vhost, queue = queue }
        info = {
          role       = q.delay == null ? "unroutable" : "delay"
          level      = q.delay == null ? "" : q.delay
          queue_type = coalesce(q.type, l.queue_type)
        }
        due_ms     = q.delay == null ? null : q.message_ttl
        max_length = q.delay == null ? null : l.max_length
      }
    ]
  ])
}

output "prometheus_facts" {
  value = yamlencode({
    groups = [{
      name = "rabbitmqdelay-facts"
      rules = concat(
        [for q in local.queues : {
          record = "rabbitmqdelay_queue_info", expr = "vector(1)", labels = merge(q.labels, q.info)
        }],
        [for q in local.queues : {
          record = "rabbitmqdelay_queue_due_seconds", expr = "vector(${q.due_ms / 1000})", labels = q.labels
        } if q.due_ms != null],
        [for q in local.queues : {
          record = "rabbitmqdelay_queue_max_length", expr = "vector(${q.max_length})", labels = q.labels
        } if q.max_length != null],
        [for entry in local.entries : {
          record = "rabbitmqdelay_entry_info", expr = "vector(1)", labels = merge(entry, { job = local.job })
        }],
        [for receiver in local.receivers : {
          record = "rabbitmqdelay_queue_info", expr = "vector(1)"
          labels = merge(receiver, { job = local.job, role = "receiver" })
        }],
      )
    }]
  })
}
