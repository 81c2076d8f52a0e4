locals {
  tasks = { name = "tasks", base = 10, levels = 8 }
}

# A definitions file that a broker loads when it starts for the first time. A broker that loads
# definitions then creates neither its default vhost nor its default user.
output "definitions" {
  value = jsonencode(merge(
    provider::rabbitmqdelay::expand(local.tasks),
    { vhosts = [{ name = "/" }] },
  ))
}
