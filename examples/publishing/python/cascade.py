import json
import os
import sys
from typing import NamedTuple


class Cascade(NamedTuple):
    """What publishers have to know of a cascade."""
    entry_exchange: str
    base: int
    levels: int
    resolution_ms: int


def cascade_from_environment() -> Cascade:
    """Reads the JSON in the environment variable PUBLISHER. Ends the program if that is not right."""
    try:
        members = json.loads(os.environ["PUBLISHER"])
        cascade = Cascade(*(members[name] for name in Cascade._fields))
        types = [type(value) for value in cascade]
        if types == [str, int, int, int] and cascade.entry_exchange and min(cascade[1:]) > 0:
            return cascade
    except (KeyError, TypeError, ValueError):
        pass
    print("set the environment variable PUBLISHER to JSON with a text entry_exchange "
          "and positive integers base, levels and resolution_ms", file=sys.stderr)
    sys.exit(2)
