# Whenever it is asked for: terraform apply -invoke=action.rabbitmqdelay_publish.hello
action "rabbitmqdelay_publish" "hello" {
  config {
    entry_exchange = rabbitmqdelay_cascade.tasks.entry_exchange
    levels         = rabbitmqdelay_cascade.tasks.levels
    resolution     = rabbitmqdelay_cascade.tasks.resolution
    delay          = "10s"
    address        = "billing"
    body           = jsonencode({ hello = "billing" })
    content_type   = "application/json"
  }
}
