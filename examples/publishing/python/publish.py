"""Sends a message through a delay cascade, or takes one from a queue and sends it again, later:

python3 publish.py send <delay in ms> <address> <body>
python3 publish.py retry <queue> <delay in ms>
"""
import os
import sys

import pika

from cascade import cascade_from_environment
from routing_key import routing_key


def publish(channel, cascade, delay_ms, address, body, properties):
    """Returns when the broker has taken responsibility for the message, without what harms it or others in a
    cascade. Raises NackError if the broker refuses the message, UnroutableError if no binding takes the key. The
    channel is in confirm mode."""
    key = routing_key(delay_ms, cascade.units_ms, cascade.max_delay_ms, address)
    properties.delivery_mode = 2  # persistent
    properties.priority = properties.expiration = None
    properties.headers = {k: v for k, v in (properties.headers or {}).items() if not is_harmful(k)}
    channel.basic_publish(cascade.entry_exchange, key, body, properties, mandatory=True)


def retry(channel, cascade, queue, delay_ms):
    """Acknowledges a message only when its successor is safe: in doubt it is delivered twice, never lost."""
    delivery, properties, body = channel.basic_get(queue)
    if delivery is None:
        raise LookupError(f"no message in {queue}")
    properties.user_id = None  # the broker refuses that of another user
    words = len(cascade.units_ms)
    address = delivery.routing_key.split(".", words)[words]
    publish(channel, cascade, delay_ms, address, body, properties)
    channel.basic_ack(delivery.delivery_tag)


def is_harmful(header):
    """Further keys, which RabbitMQ uses again at every level, and the headers that it wrote during the delay.
    RabbitMQ 3 takes a message with such headers for one that goes in circles, lost or stuck. RabbitMQ 4.4 would
    hold one until x-opt-delivery-time."""
    return (header in ("CC", "BCC", "x-death", "x-opt-delivery-time")
            or header.startswith(("x-first-death-", "x-last-death-")))


if __name__ == "__main__":
    cascade = cascade_from_environment()
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_AMQP_URI"]))
    channel = connection.channel()
    channel.confirm_delivery()
    if sys.argv[1] == "retry":
        retry(channel, cascade, sys.argv[2], int(sys.argv[3]))
    else:
        publish(channel, cascade, int(sys.argv[2]), sys.argv[3], sys.argv[4].encode(), pika.BasicProperties())
    connection.close()
