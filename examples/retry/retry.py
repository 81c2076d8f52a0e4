"""Takes messages from a queue and lets those that fail come back later and later, through a ladder. Needs pika:

PUBLISHER='{"entry_exchange": ...}' python3 retry.py <queue> <command>

PUBLISHER is the attribute publisher of the ladder, as JSON. The command gets the body on its standard input. If it
fails, the worker publishes the message anew with the next of the delays. It acknowledges the old one when the broker
has confirmed the new one: in doubt the message comes twice, and it is never lost. When there is no further delay, the
worker rejects the message for good: give the queue a dead-letter exchange to keep it. A command has to end within half
of the connection's heartbeat, a minute by default.
"""
import json
import os
import subprocess
import sys

import pika


def handle(channel, entry, delays, command, delivery, properties, body):
    """Runs the command and decides what becomes of the message."""
    status = subprocess.run([command], input=body, check=False).returncode
    retries = retries_of(properties, entry, delays)
    if status == 0:
        channel.basic_ack(delivery.delivery_tag)
    elif retries >= len(delays):
        print(f"given up after {retries + 1} attempts: status {status}", file=sys.stderr)
        channel.basic_reject(delivery.delivery_tag, requeue=False)
    else:
        print(f"attempt {retries + 1} failed, again in {delays[retries]}: status {status}", file=sys.stderr)
        again(channel, entry, delays[retries], properties, body)
        channel.basic_ack(delivery.delivery_tag)


def retries_of(properties, entry, delays):
    """How many times the message has come back. RabbitMQ says in the first entry of x-death with which key the message
    has come to the queue where it has waited last."""
    for death in (properties.headers or {}).get("x-death", [])[:1]:
        key = death["routing-keys"][0]
        if death["exchange"] == entry and key in delays:
            return delays.index(key) + 1
    return 0


def again(channel, entry, key, properties, body):
    """Publishes the message for a further attempt. Returns when the broker has taken responsibility for it."""
    headers = {k: v for k, v in (properties.headers or {}).items() if not is_harmful(k)}
    channel.basic_publish(entry, key, body, pika.BasicProperties(
        headers=headers, content_type=properties.content_type, delivery_mode=2,
        message_id=properties.message_id, timestamp=properties.timestamp), mandatory=True)


def is_harmful(header):
    """Further keys, which RabbitMQ would use again, and the headers that it wrote during the delay. RabbitMQ 3
    takes a message with such headers for one that goes in circles, lost or stuck. RabbitMQ 4.4 would hold one until
    x-opt-delivery-time."""
    return (header in ("CC", "BCC", "x-death", "x-opt-delivery-time")
            or header.startswith(("x-first-death-", "x-last-death-")))


if __name__ == "__main__":
    if len(sys.argv) != 3 or "PUBLISHER" not in os.environ:
        sys.stderr.write("usage: PUBLISHER='{...}' retry.py <queue> <command>\n")
        sys.exit(2)
    _, queue, command = sys.argv
    ladder = json.loads(os.environ["PUBLISHER"])
    delays = sorted(ladder["delays_ms"], key=ladder["delays_ms"].get)  # the labels, the shortest first
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_AMQP_URI"]))
    channel = connection.channel()
    channel.confirm_delivery()  # a refused or unroutable message is an exception
    channel.basic_qos(prefetch_count=1)  # one at a time: how many messages wait for this worker
    for message in channel.consume(queue):
        handle(channel, ladder["entry_exchange"], delays, command, *message)
