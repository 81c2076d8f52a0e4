# 17
output "levels" {
  value = provider::rabbitmqdelay::levels_for("36h")
}
