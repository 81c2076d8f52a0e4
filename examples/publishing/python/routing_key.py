def routing_key(delay_ms: int, levels: int, resolution_ms: int, destination: str) -> str:
    """The delay in steps of the resolution, rounded up so that no message is early, in binary with one
    digit for each level, then the destination."""
    steps = -(-delay_ms // resolution_ms)
    if delay_ms < 0 or steps >= 2**levels:
        raise ValueError(f"a delay of {delay_ms} ms does not fit {levels} levels of {resolution_ms} ms")
    key = ".".join(f"{steps:0{levels}b}") + "." + destination
    if not destination or len(key.encode()) > 255:
        raise ValueError(f"the destination {destination!r} is empty or too long")
    return key
