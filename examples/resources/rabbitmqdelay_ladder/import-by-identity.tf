import {
  to = rabbitmqdelay_ladder.retry
  identity = {
    vhost          = "/"
    entry_exchange = "retry.entry"
  }
}
