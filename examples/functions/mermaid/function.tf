resource "rabbitmqdelay_cascade" "orders" {
  name = "orders"
}

# For a pull request: a code block that GitHub draws
output "diagram" {
  value = "```mermaid\n${provider::rabbitmqdelay::mermaid(rabbitmqdelay_cascade.orders.publisher)}```\n"
}
