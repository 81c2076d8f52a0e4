"""Takes messages from a queue and lets those that fail come back later and later, through a ladder. Needs pika:

python3 retry.py <queue> 1s,5s,15s <command>

The command gets the body on its standard input. If it fails, the worker publishes the message anew with the next of
the delays, to the exchange <queue>.retry.entry. It acknowledges the old one when the broker has confirmed the new
one: in doubt the message comes twice, and it is never lost. When there is no further delay, the worker rejects the
message for good: give the queue a dead-letter exchange to keep it. The queues of the ladder have to be called
<queue>.retry.<delay>, by which the worker knows how often a message has come back. A command has to end within
half of the connection's heartbeat, a minute by default.
"""
import os
import subprocess
import sys

import pika


def handle(channel, queue, delays, command, delivery, properties, body):
    """Runs the command and decides what becomes of the message."""
    status = subprocess.run([command], input=body, check=False).returncode
    retries = retries_of(properties, queue, delays)
    if status == 0:
        channel.basic_ack(delivery.delivery_tag)
    elif retries >= len(delays):
        print(f"given up after {retries + 1} attempts: status {status}", file=sys.stderr)
        channel.basic_reject(delivery.delivery_tag, requeue=False)
    else:
        print(f"attempt {retries + 1} failed, again in {delays[retries]}: status {status}", file=sys.stderr)
        again(channel, f"{queue}.retry.entry", delays[retries], properties, body)
        channel.basic_ack(delivery.delivery_tag)


def retries_of(properties, queue, delays):
    """How many times the message has come back. RabbitMQ says in the first entry of x-death in which queue the message
    has waited last."""
    deaths = (properties.headers or {}).get("x-death", [])
    rungs = [f"{queue}.retry.{delay}" for delay in delays]
    return rungs.index(deaths[0]["queue"]) + 1 if deaths and deaths[0]["queue"] in rungs else 0


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
    if len(sys.argv) != 4:
        sys.stderr.write("usage: retry.py <queue> <delays> <command>\n")
        sys.exit(2)
    _, queue, delays, command = sys.argv
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_AMQP_URI"]))
    channel = connection.channel()
    channel.confirm_delivery()  # a refused or unroutable message is an exception
    channel.basic_qos(prefetch_count=1)  # one at a time: how many messages wait for this worker
    for message in channel.consume(queue):
        handle(channel, queue, delays.split(","), command, *message)
