terraform {
  required_providers {
    rabbitmq = {
      source = "cyrilgdn/rabbitmq"
    }
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

# Both take RABBITMQ_ENDPOINT, RABBITMQ_USERNAME and RABBITMQ_PASSWORD from the environment.
provider "rabbitmq" {}

provider "rabbitmqdelay" {}

variable "mailer_password" {
  type      = string
  sensitive = true
}

resource "rabbitmq_vhost" "shop" {
  name = "shop"
}

resource "rabbitmqdelay_cascade" "reminders" {
  name      = "reminders"
  vhost     = rabbitmq_vhost.shop.name
  max_delay = "1d"
}

resource "rabbitmq_queue" "mails" {
  name  = "mails"
  vhost = rabbitmq_vhost.shop.name

  settings {
    durable   = true
    arguments = { "x-queue-type" = "quorum" }
  }
}

# The queue gets the messages for the address "mails". It is bound again at once when other arguments replace
# it. Without triggers, only the next apply would bind it.
resource "rabbitmqdelay_destination" "mails" {
  vhost             = rabbitmq_vhost.shop.name
  delivery_exchange = rabbitmqdelay_cascade.reminders.delivery_exchange
  levels            = length(rabbitmqdelay_cascade.reminders.units)
  address           = "mails"
  queue             = rabbitmq_queue.mails.name
  triggers          = rabbitmq_queue.mails.settings[0].arguments
}

resource "rabbitmq_user" "mailer" {
  name     = "mailer"
  password = var.mailer_password
}

# The mailer publishes to the entry exchange and consumes its own queue.
resource "rabbitmq_permissions" "mailer" {
  user  = rabbitmq_user.mailer.name
  vhost = rabbitmq_vhost.shop.name

  permissions {
    configure = "^$"
    write     = "^${replace(rabbitmqdelay_cascade.reminders.entry_exchange, ".", "\\.")}$"
    read      = "^${rabbitmq_queue.mails.name}$"
  }
}
