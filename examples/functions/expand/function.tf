locals {
  tasks = { name = "tasks", levels = 17 }
}

# A definitions file that a broker loads when it starts for the first time. A broker that loads definitions
# then creates neither its default vhost nor its default user.
output "definitions" {
  value = jsonencode(merge(
    provider::rabbitmqdelay::expand(local.tasks),
    { vhosts = [{ name = "/" }] },
  ))
}
