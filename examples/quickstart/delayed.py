"""Sends a message to itself, five seconds into the future. Needs pika:

PUBLISHER="$(terraform output -raw publisher)" python3 delayed.py
"""
import json
import os
import time

import pika

cascade = json.loads(os.environ["PUBLISHER"])


def routing_key(delay_ms, address):
    """The delay, rounded up to the last unit: a number for each unit, the largest unit first. Then the address."""
    if not 0 <= delay_ms <= cascade["max_delay_ms"]:
        raise ValueError(f"a delay of {delay_ms} ms is not within 0 to {cascade['max_delay_ms']} ms")
    units_ms, words = cascade["units_ms"], []
    rest = -(-delay_ms // units_ms[-1]) * units_ms[-1]
    for unit_ms in units_ms:
        number, rest = divmod(rest, unit_ms)
        words.append(str(number))
    return ".".join([*words, address])


uri = os.environ.get("RABBITMQ_AMQP_URI", "amqp://guest:guest@127.0.0.1:5672/%2F")
connection = pika.BlockingConnection(pika.URLParameters(uri))
channel = connection.channel()
channel.confirm_delivery()

# Receive: the queue is the application's own, bound to the delivery exchange for the address "billing".
# A quorum queue less than three seconds old can lose messages if its node is killed: an application binds it later.
channel.queue_declare("billing", durable=True, arguments={"x-queue-type": "quorum"})
channel.queue_bind("billing", "orders.delivery", "*." * len(cascade["units_ms"]) + "billing")

# Publish: to the entry exchange. The key is 0.0.0.5.billing: no days, no hours, no minutes, five seconds.
sent = time.monotonic()
channel.basic_publish(cascade["entry_exchange"], routing_key(5_000, "billing"), b"invoice 17",
                      pika.BasicProperties(delivery_mode=2), mandatory=True)
delivery, _, body = next(channel.consume("billing"))
channel.basic_ack(delivery.delivery_tag)
print(f"{body.decode()} arrived after {time.monotonic() - sent:.1f} s")
connection.close()
