"""Moves what waits in a cascade to one on another broker: each message with the delay that is left.

terraform output -raw move | OLD_URI=amqp://... NEW_URI=amqp://... python3 move.py [--timestamps]
"""
import calendar
import json
import os
import sys
import time

import pika

move = json.load(sys.stdin)
units, to = move["units_ms"], move["to"]
names = {(queue["level"], queue["digit"]): queue["name"] for queue in move["queues"]}


def time_left(queue, words, properties):
    """Milliseconds: too many where nothing tells how long a message has been in its queue, and never too few."""
    at = len(units) - 1 - queue["level"]
    after = sum(number * unit for number, unit in zip(words[at + 1:], units[at + 1:]))
    came = properties.timestamp if "--timestamps" in sys.argv else None
    before = [(len(units) - 1 - i, words[i]) for i in range(at) if words[i]]
    if before:  # it has waited in another queue, and RabbitMQ has noted when it left that
        death = (properties.headers.get("x-death") or [{}])[0]
        is_sure = death.get("queue") == names.get(before[-1]) and death.get("count") == 1
        came = calendar.timegm(death["time"].timetuple()) if is_sure else None
    most = queue["message_ttl"] + after
    left = most - int(time.time() * 1000) + (came + 1) * 1000 if came else most  # parts of a second are cut off
    return left if after < left < most else most  # it has not left its queue yet


def key_for(delay, address):
    """The routing key for a delay, which is rounded up."""
    if delay > to["max_delay_ms"]:
        raise ValueError("too long for the new cascade")
    words, left = [], -(-delay // to["units_ms"][-1]) * to["units_ms"][-1]
    for unit in to["units_ms"]:
        words.append(str(left // unit))
        left %= unit
    return ".".join([*words, address])


old, new = (pika.BlockingConnection(pika.URLParameters(os.environ[uri])) for uri in ("OLD_URI", "NEW_URI"))
source, target = old.channel(), new.channel()
target.confirm_delivery()
moved = stays = 0
for queue in move["queues"]:
    while (got := source.basic_get(queue["name"]))[0]:
        method, properties, body = got
        headers = properties.headers = properties.headers or {}
        *words, address = method.routing_key.split(".", len(units))
        try:
            if "CC" in headers:
                raise ValueError("copies of it may wait elsewhere")
            key = key_for(time_left(queue, [int(word) for word in words], properties), address)
            for name in ("x-death", "x-delivery-count", "x-acquired-count"):
                headers.pop(name, None)  # RabbitMQ 3 could take it for a message that goes in circles
            properties.expiration = properties.user_id = None  # would drop it, or be refused
            target.basic_publish(to["entry_exchange"], key, body, properties, mandatory=True)
            source.basic_ack(method.delivery_tag)  # only now: in doubt it comes twice, and is never lost
            moved += 1
        except (ValueError, pika.exceptions.UnroutableError, pika.exceptions.NackError):
            stays += 1
source.basic_nack(0, multiple=True)  # puts back what stays
old.close(), new.close()
print(f"{moved} moved, {stays} left")
