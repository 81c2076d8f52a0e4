import json
import os
import time

import pika

cascade = json.loads(os.environ["PUBLISHER"])


def routing_key(delay_ms, address):
    """A number for each unit, the largest unit first, then the address. The delay is rounded up to the last unit."""
    if not 0 <= delay_ms <= cascade["max_delay_ms"]:
        raise ValueError(f"a delay of {delay_ms} ms is not within 0 to {cascade['max_delay_ms']} ms")
    key, rest = "", delay_ms + -delay_ms % cascade["units_ms"][-1]
    for unit_ms in cascade["units_ms"]:
        key += f"{rest // unit_ms}."
        rest %= unit_ms
    return key + address


uri = os.environ.get("RABBITMQ_AMQP_URI", "amqp://guest:guest@127.0.0.1:5672/%2F")
channel = pika.BlockingConnection(pika.URLParameters(uri)).channel()
channel.confirm_delivery()
# The receiver has a queue of its own, bound to the delivery exchange for the address "billing".
channel.queue_declare("billing", durable=True, arguments={"x-queue-type": "quorum"})
channel.queue_bind("billing", "orders.delivery", "*." * len(cascade["units_ms"]) + "billing")
# The publisher sends to the entry exchange.
sent = time.monotonic()
channel.basic_publish(cascade["entry_exchange"], routing_key(5_000, "billing"), b"invoice 17",
                      pika.BasicProperties(delivery_mode=2), mandatory=True)
delivery, _, body = next(channel.consume("billing"))
channel.basic_ack(delivery.delivery_tag)
print(f"{body.decode()} arrived after {time.monotonic() - sent:.1f} s")
channel.connection.close()
