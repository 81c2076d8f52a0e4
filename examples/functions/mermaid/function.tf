resource "rabbitmqdelay_cascade" "tasks" {
  name   = "tasks"
  levels = 4
}

# For a pull request: a code block that GitHub draws
output "diagram" {
  value = "```mermaid\n${provider::rabbitmqdelay::mermaid(rabbitmqdelay_cascade.tasks.publisher)}```\n"
}
