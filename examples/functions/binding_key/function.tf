# In base 2: "*.1.#" leads from the exchange of level 2 to its queue, "*.0.#" past it
output "keys" {
  value = [for digit in [1, 0] : provider::rabbitmqdelay::binding_key(2, 4, digit)]
}

# In base 10: "*.1.#" to "*.9.#", one for each queue of level 2, and "*.0.#" past them
output "keys_of_base_10" {
  value = [for digit in range(10) : provider::rabbitmqdelay::binding_key(2, 4, digit)]
}
