# A wheel: messages wait in powers of two of a second, and after every wait a controller decides
# about the next one. Its queue takes all that the delivery exchange gets.
terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

resource "rabbitmqdelay_ladder" "wheel" {
  name   = "wheel"
  delays = [for n in range(20) : "${pow(2, n)}s"] # 1 s … 6 d 1 h 38 min 8 s
}

data "rabbitmqdelay_ladder" "wheel" {
  entry_exchange = rabbitmqdelay_ladder.wheel.entry_exchange
}

# From the data source: if an apply is refused, Terraform still saves what it planned of the resource.
output "publisher" {
  value = jsonencode(data.rabbitmqdelay_ladder.wheel.publisher)
}
