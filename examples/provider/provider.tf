terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

variable "rabbitmq_password" {
  type      = string
  sensitive = true
}

provider "rabbitmqdelay" {
  endpoint = "https://rabbitmq.example.com:15671"
  username = "terraform"
  password = var.rabbitmq_password
}
