"""Publishes again what a cascade has parked: each message that lies in the queue now, once.

python3 replay.py <queue of unroutable messages> <delivery exchange> <exchange of each level, the entry first>...
"""
import os
import sys

import pika


def way_on(exchange, key, headers, delivery, levels):
    """The exchange to publish to, or None for a message that stays."""
    if "CC" in headers:
        return None  # copies of it may have arrived
    if exchange == delivery:
        return delivery
    if exchange not in levels or not key.split(".", len(levels))[len(levels):]:
        return None  # published elsewhere, or a key without an address
    at = levels.index(exchange)
    words = key.split(".")[:len(levels)]
    if all(word == "0" for word in words[at:]) and (at == 0 or "x-death" in headers):
        return delivery  # no delay is left
    is_right = all(word.isdecimal() for word in words) and "x-death" not in headers
    return exchange if at == 0 and is_right else None  # not begun, or in the middle


queue, delivery, *levels = sys.argv[1:]
connection = pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_AMQP_URI"]))
channel = connection.channel()
channel.confirm_delivery()
published = stays = 0
for _ in range(channel.queue_declare(queue, passive=True).method.message_count):
    method, properties, body = channel.basic_get(queue)
    if method is None:
        break  # somebody else has taken it
    headers = properties.headers = properties.headers or {}
    exchange = way_on(method.exchange, method.routing_key, headers, delivery, levels)
    for counts in ("x-delivery-count", "x-acquired-count"):
        headers.pop(counts, None)  # written by the queue
    properties.expiration = properties.user_id = None  # would drop it, or be refused
    try:
        if exchange is not None:
            channel.basic_publish(exchange, method.routing_key, body, properties, mandatory=True)
            channel.basic_ack(method.delivery_tag)  # only now: in doubt it comes twice, and is never lost
            published += 1
            continue
    except (pika.exceptions.UnroutableError, pika.exceptions.NackError):
        pass  # nobody takes it
    stays += 1
channel.basic_nack(0, multiple=True)  # puts back what stays
connection.close()
print(f"{published} published again, {stays} left")
