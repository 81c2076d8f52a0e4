locals {
  tasks = { name = "tasks", levels = 4 }
}

resource "rabbitmqdelay_cascade" "tasks" {
  name   = local.tasks.name
  levels = local.tasks.levels
}

# For a pull request: a code block that GitHub draws
output "diagram" {
  value = "```mermaid\n${provider::rabbitmqdelay::mermaid(local.tasks)}```\n"
}
