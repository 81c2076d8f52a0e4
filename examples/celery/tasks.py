"""A Celery application (5.5 or later) whose countdowns wait in RabbitMQ instead of in its workers."""

import os
import sys
import time

from celery import Celery
from celery.signals import before_task_publish
from kombu import Exchange, Queue

app = Celery("tasks", broker=os.environ["BROKER_URL"])
app.conf.update(
    # Delays wait in RabbitMQ where there is a quorum queue for tasks; its exchange has to be a
    # topic exchange.
    task_queues=[
        Queue("tasks", Exchange("tasks", type="topic"), routing_key="tasks", queue_arguments={"x-queue-type": "quorum"})
    ],
    task_default_queue="tasks",
    task_default_exchange="tasks",
    task_default_exchange_type="topic",
    task_default_routing_key="tasks",
    # The queues that they wait in: "quorum" or "classic".
    broker_native_delayed_delivery_queue_type=os.environ.get("DELAY_QUEUE_TYPE", "quorum"),
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry_on_startup=True,
    worker_enable_remote_control=False,
)


# A task that is retried brings along what RabbitMQ wrote while it was delayed. RabbitMQ 3 then
# takes it for a message that goes in circles, and it never arrives (celery issue 9867).
@before_task_publish.connect
def forget_deaths(headers, **_):
    for name in [n for n in headers if n == "x-death" or n.startswith(("x-first-death-", "x-last-death-"))]:
        del headers[name]


@app.task(ignore_result=True)
def remind(sent, countdown):
    print(f"asked {countdown} waited {time.time() - sent:.3f}", flush=True)


@app.task(bind=True, ignore_result=True)
def succeed_after(self, retries):
    if self.request.retries < retries:
        raise self.retry(countdown=3)
    print(f"succeeded after {retries} retries", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["retry"]:
        succeed_after.apply_async(args=(int(sys.argv[2]),), countdown=3)
        sys.exit()
    for seconds in map(int, sys.argv[1:]):
        remind.apply_async(args=(time.time(), seconds), countdown=seconds)
