# In a file such as find.tfquery.hcl, for the command: terraform query -generate-config-out=found.tf
# All ladders that the user may look at. Without a limit, the query stops after the first 100.
list "rabbitmqdelay_ladder" "all" {
  provider = rabbitmqdelay
  limit    = 1000
}

# The ladders of one virtual host.
list "rabbitmqdelay_ladder" "default" {
  provider = rabbitmqdelay

  config {
    vhost = "/"
  }
}
