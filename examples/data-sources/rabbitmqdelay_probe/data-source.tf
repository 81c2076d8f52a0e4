check "orders_arrive" {
  data "rabbitmqdelay_probe" "orders" {
    entry_exchange = "orders.d.h.m.s"
    delay          = "1s"
  }

  assert {
    condition = (
      data.rabbitmqdelay_probe.orders.lateness_ms >= 0 &&
      data.rabbitmqdelay_probe.orders.lateness_ms < 1000
    )
    error_message = "A message for 1 s arrived after ${data.rabbitmqdelay_probe.orders.measured_delay}."
  }
}
