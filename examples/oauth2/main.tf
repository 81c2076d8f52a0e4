variable "rabbitmq_token" {
  type      = string
  sensitive = true
}

provider "rabbitmqdelay" {
  endpoint = "https://rabbitmq.example.com:15671"
  username = "terraform" # RabbitMQ reads the user off the token
  password = var.rabbitmq_token
}
