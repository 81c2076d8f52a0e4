# "*.1.#" leads from the exchange of level 2 to its queue, "*.0.#" past it
output "keys" {
  value = [for bit in [1, 0] : provider::rabbitmqdelay::binding_key(2, 4, bit)]
}
