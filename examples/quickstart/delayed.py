"""Sends a message to itself, five seconds into the future. Needs pika:

PUBLISHER="$(terraform output -raw publisher)" python3 delayed.py
"""
import json
import os
import time

import pika

cascade = json.loads(os.environ["PUBLISHER"])
levels = cascade["levels"]


def routing_key(delay_ms, address):
    """The delay in steps of the resolution, rounded up, one digit for each level, then the address."""
    steps = -(-delay_ms // cascade["resolution_ms"])
    if not 0 <= steps < 10**levels:
        raise ValueError(f"a delay of {delay_ms} ms does not fit {levels} digits")
    return ".".join(f"{steps:0{levels}d}") + "." + address


uri = os.environ.get("RABBITMQ_AMQP_URI", "amqp://guest:guest@127.0.0.1:5672/%2F")
connection = pika.BlockingConnection(pika.URLParameters(uri))
channel = connection.channel()
channel.confirm_delivery()

# Receive: the queue is the application's own, bound to the delivery exchange for the address "billing".
channel.queue_declare("billing", durable=True, arguments={"x-queue-type": "quorum"})
channel.queue_bind("billing", "tasks.delivery", "*." * levels + "billing")

# Publish: to the entry exchange, with the key 0.0.0.0.0.0.0.5.billing.
sent = time.monotonic()
channel.basic_publish(cascade["entry_exchange"], routing_key(5_000, "billing"), b"invoice 17",
                      pika.BasicProperties(delivery_mode=2), mandatory=True)
delivery, _, body = next(channel.consume("billing"))
channel.basic_ack(delivery.delivery_tag)
print(f"{body.decode()} arrived after {time.monotonic() - sent:.1f} s")
connection.close()
