"""Publishes again what a cascade has parked: each message that lies in the queue now, once.

python3 replay.py <queue of unroutable messages> <delivery exchange> <exchange of each level, the entry first>...
"""
import os
import sys

import pika

queue, delivery, *levels = sys.argv[1:]
channel = pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_AMQP_URI"])).channel()
channel.confirm_delivery()
published = stays = 0
for _ in range(channel.queue_declare(queue, passive=True).method.message_count):
    method, properties, body = channel.basic_get(queue)
    if method is None:
        break  # somebody else has taken it
    exchange, key = method.exchange, method.routing_key
    headers = properties.headers = properties.headers or {}
    words, has_waited = key.split(".", len(levels))[:-1], "x-death" in headers
    is_right = len(words) == len(levels) and all(map(str.isdecimal, words)) and has_waited == (exchange in levels[1:])
    if is_right and exchange in levels and set(words[levels.index(exchange):]) == {"0"}:
        exchange = delivery  # no delay is left
    headers.pop("x-delivery-count", None), headers.pop("x-acquired-count", None)  # written by the queue
    properties.expiration = properties.user_id = None  # would drop it, or be refused
    try:
        if "CC" in headers:
            raise ValueError("copies of it may have arrived")
        if exchange != delivery and not (is_right and exchange in levels[:1]):
            raise ValueError("malformed, in the middle of its delay, or from elsewhere")
        channel.basic_publish(exchange, key, body, properties, mandatory=True)
        channel.basic_ack(method.delivery_tag)  # only now: in doubt it comes twice, and is never lost
        published += 1
    except (ValueError, pika.exceptions.UnroutableError, pika.exceptions.NackError):
        stays += 1
channel.basic_nack(0, multiple=True)  # puts back what stays
channel.connection.close()
print(f"{published} published again, {stays} left")
