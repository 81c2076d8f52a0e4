import json
import os
import sys
from typing import NamedTuple


class Cascade(NamedTuple):
    """What publishers have to know of a cascade."""
    entry_exchange: str
    units_ms: list[int]
    max_delay_ms: int


def cascade_from_environment() -> Cascade:
    """Reads the JSON in the environment variable PUBLISHER. Ends the program if that is not right."""
    try:
        members = json.loads(os.environ["PUBLISHER"])
        cascade = Cascade(*(members[name] for name in Cascade._fields))
        numbers = [*cascade.units_ms, cascade.max_delay_ms]
        if (type(cascade.entry_exchange) is str and cascade.entry_exchange and cascade.units_ms
                and all(type(number) is int and number > 0 for number in numbers)):
            return cascade
    except (KeyError, TypeError, ValueError):
        pass
    print("set the environment variable PUBLISHER to JSON with a text entry_exchange, "
          "a list units_ms of positive integers, and a positive integer max_delay_ms", file=sys.stderr)
    sys.exit(2)
