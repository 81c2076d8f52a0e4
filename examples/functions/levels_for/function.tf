# 17, in base 2 and steps of a second
output "levels" {
  value = provider::rabbitmqdelay::levels_for("36h")
}

# 6, in base 10
output "levels_of_base_10" {
  value = provider::rabbitmqdelay::levels_for("36h", "1s", 10)
}
