# A module with tests of its own: terraform test runs them, with OpenTofu tofu test. It gives one
# application a cascade, and says what its publishers and receivers have to know. Provider functions
# need Terraform 1.8.
terraform {
  required_version = ">= 1.8"
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

variable "name" {
  description = "Name of the application."
  type        = string
}

variable "vhost" {
  description = "Virtual host. It has to exist."
  type        = string
  default     = "/"
}

variable "max_delay" {
  description = "Longest delay that has to be possible. It grows and shrinks in place."
  type        = string
  default     = "30d"

  validation {
    condition     = can(regex("^([0-9]+[dhms])+$", var.max_delay))
    error_message = "A duration such as 90d, 12h or 1h30m."
  }
}

variable "receivers" {
  description = "Addresses that messages are sent to."
  type        = set(string)
  default     = []
}

resource "rabbitmqdelay_cascade" "this" {
  name      = "${var.name}.delays"
  vhost     = var.vhost
  max_delay = var.max_delay
}

# The outputs come from here, not from the resource: Terraform would save its planned values even if
# the apply is refused.
data "rabbitmqdelay_cascade" "this" {
  vhost          = rabbitmqdelay_cascade.this.vhost
  entry_exchange = rabbitmqdelay_cascade.this.entry_exchange
}

output "publisher" {
  description = "What publishers need to compute routing keys; hand it over with jsonencode."
  value       = data.rabbitmqdelay_cascade.this.publisher
}

output "receive_from" {
  description = "All that receivers need for a rabbitmqdelay_destination: vhost, exchange and levels. For those without Terraform, the key for each address."
  value = {
    vhost    = data.rabbitmqdelay_cascade.this.vhost
    exchange = data.rabbitmqdelay_cascade.this.delivery_exchange
    levels   = data.rabbitmqdelay_cascade.this.levels
    keys = {
      for address in var.receivers :
      address => provider::rabbitmqdelay::destination_key(data.rabbitmqdelay_cascade.this.levels, address)
    }
  }
}
