import {
  to = rabbitmqdelay_ladder.retry
  id = "%2F/retry.entry"
}
