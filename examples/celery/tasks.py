"""A Celery application (5.5 or later) whose countdowns wait in RabbitMQ instead of in its workers."""

import os
import sys
import time

from celery import Celery
from kombu import Exchange, Queue

app = Celery("tasks", broker=os.environ["BROKER_URL"])
app.conf.update(
    # Delays wait in RabbitMQ where there is a quorum queue for tasks; its exchange has to be a topic exchange.
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


@app.task(ignore_result=True)
def remind(sent, countdown):
    print(f"asked {countdown} waited {time.time() - sent:.3f}", flush=True)


if __name__ == "__main__":
    for seconds in map(int, sys.argv[1:]):
        remind.apply_async(args=(time.time(), seconds), countdown=seconds)
