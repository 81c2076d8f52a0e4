check "tasks_arrive" {
  data "rabbitmqdelay_probe" "tasks" {
    entry_exchange = "tasks.delay-16"
    delay          = "1s"
  }

  assert {
    condition = (
      data.rabbitmqdelay_probe.tasks.lateness_ms >= 0 &&
      data.rabbitmqdelay_probe.tasks.lateness_ms < 1000
    )
    error_message = "A message for 1 s arrived after ${data.rabbitmqdelay_probe.tasks.measured_delay}."
  }
}
