import {
  to = rabbitmqdelay_cascade.orders
  id = "%2F/orders.d.h.m.s"
}
