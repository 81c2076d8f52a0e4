# All cascades that the user may look at; the first 100, unless there is a limit.
list "rabbitmqdelay_cascade" "all" {
  provider = rabbitmqdelay
  limit    = 1000
}

# Those of one virtual host.
list "rabbitmqdelay_cascade" "default" {
  provider = rabbitmqdelay

  config {
    vhost = "/"
  }
}
