terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

provider "rabbitmqdelay" {}

# What Celery's workers declare when they start. "celery_classic" goes with
# broker_native_delayed_delivery_queue_type = "classic". It loses some of the
# tasks that fall due while a node restarts.
resource "rabbitmqdelay_cascade" "celery" {
  preset = "celery"
}
