# A team that receives delayed messages, with a state of its own. From the state of the module in
# ../module it reads where to bind its queue. It knows neither the units nor the name of the
# entry exchange.
terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

variable "delays_state" {
  description = "File with the state of the module."
  type        = string
}

data "terraform_remote_state" "delays" {
  backend = "local" # or whatever keeps that state
  config  = { path = var.delays_state }
}

# The queue is the team's own. It exists already.
resource "rabbitmqdelay_destination" "billing" {
  vhost             = data.terraform_remote_state.delays.outputs.receive_from.vhost
  delivery_exchange = data.terraform_remote_state.delays.outputs.receive_from.exchange
  levels            = data.terraform_remote_state.delays.outputs.receive_from.levels
  address           = "billing"
  queue             = "billing"
}

# For the team's programs that publish, such as one that tries again later.
output "publisher" {
  value = jsonencode(data.terraform_remote_state.delays.outputs.publisher)
}
