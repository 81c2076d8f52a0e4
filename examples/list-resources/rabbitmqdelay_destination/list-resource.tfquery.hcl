# In a file such as find.tfquery.hcl, for the command: terraform query -generate-config-out=found.tf
# All destinations that the user may look at. Without a limit, the query stops after the first 100.
list "rabbitmqdelay_destination" "all" {
  provider = rabbitmqdelay
  limit    = 1000
}

# The destinations of one cascade.
list "rabbitmqdelay_destination" "orders" {
  provider = rabbitmqdelay

  config {
    vhost             = "/"
    delivery_exchange = "orders.delivery"
  }
}
