import {
  to = rabbitmqdelay_cascade.orders
  identity = {
    vhost          = "/"
    entry_exchange = "orders.d.h.m.s"
  }
}
