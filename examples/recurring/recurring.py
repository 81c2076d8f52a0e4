"""A message that comes back at the same time again and again. Needs pika, and PUBLISHER as other publishers do:

python3 recurring.py start <queue> <name> "09:00 Europe/Berlin" <body>
python3 recurring.py work <queue> <command>

A schedule is a time of day in a time zone, or an interval such as "30s". The worker runs the command with the body on
its standard input, publishes the next occurrence, and acknowledges when the broker has confirmed it. The command ends
a series with the exit status 10. The queue is bound to the delivery exchange for the address of its name, and has
x-single-active-consumer: one worker at a time.

A worker that is killed between the two leaves an occurrence twice. Both come at the same time: the second is dropped.
"""
import json
import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pika

ENOUGH = 10  # the exit status that ends a series


def next_time(schedule, last, now):
    """The first time of the schedule that is after the last one and not over. Days are as long as their zone has them."""
    if schedule.endswith("s"):
        every = timedelta(seconds=int(schedule[:-1]))
        return last + every * max(1, -((last - now) // every))
    clock, zone = schedule.split()
    hour, minute = map(int, clock.split(":"))
    after = max(last, now).astimezone(ZoneInfo(zone))
    due = after.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return due if due > after else due + timedelta(days=1)


def publish(channel, cascade, queue, name, schedule, due, body):
    """Returns when the broker has taken responsibility for the occurrence."""
    delay_ms = max(0, int((due - datetime.now(timezone.utc)) / timedelta(milliseconds=1)))
    if delay_ms > cascade["max_delay_ms"]:
        raise ValueError(f"{due} is too far away: the longest delay is {cascade['max_delay_ms']} ms")
    rest, key = -(-delay_ms // cascade["units_ms"][-1]) * cascade["units_ms"][-1], ""
    for unit_ms in cascade["units_ms"]:  # a number for each unit
        number, rest = divmod(rest, unit_ms)
        key += f"{number}."
    channel.basic_publish(cascade["entry_exchange"], key + queue, body, pika.BasicProperties(
        headers={"schedule": schedule, "due": due.isoformat()}, message_id=name, delivery_mode=2), mandatory=True)


def work(channel, cascade, queue, command):
    last = {}  # the occurrence that was handled last, by name
    for delivery, properties, body in channel.consume(queue):
        name, schedule = properties.message_id, properties.headers["schedule"]
        due = datetime.fromisoformat(properties.headers["due"])
        if last.get(name) != due:
            if subprocess.run([command], input=body, check=False).returncode != ENOUGH:
                following = next_time(schedule, due, datetime.now(timezone.utc))
                publish(channel, cascade, queue, name, schedule, following, body)
            last[name] = due
        channel.basic_ack(delivery.delivery_tag)


if __name__ == "__main__":
    if len(sys.argv) != {"start": 6, "work": 4}.get(sys.argv[1] if len(sys.argv) > 1 else ""):
        sys.stderr.write("usage: recurring.py start <queue> <name> <schedule> <body> | work <queue> <command>\n")
        sys.exit(2)
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_AMQP_URI"]))
    channel = connection.channel()
    channel.confirm_delivery()  # a refused or unroutable message is an exception
    channel.basic_qos(prefetch_count=1)
    if sys.argv[1] == "work":
        work(channel, json.loads(os.environ["PUBLISHER"]), *sys.argv[2:])
    else:
        _, _, queue, name, schedule, body = sys.argv
        now = datetime.now(timezone.utc)
        due = next_time(schedule, now, now)
        publish(channel, json.loads(os.environ["PUBLISHER"]), queue, name, schedule, due, body.encode())
    connection.close()
