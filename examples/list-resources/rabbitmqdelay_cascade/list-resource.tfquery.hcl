# In a file such as find.tfquery.hcl, for the command: terraform query -generate-config-out=found.tf
# All cascades that the user may look at. Without a limit, the query stops after the first 100.
list "rabbitmqdelay_cascade" "all" {
  provider = rabbitmqdelay
  limit    = 1000
}

# The cascades of one virtual host.
list "rabbitmqdelay_cascade" "default" {
  provider = rabbitmqdelay

  config {
    vhost = "/"
  }
}
