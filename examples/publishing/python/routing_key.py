def routing_key(delay_ms: int, levels: int, resolution_ms: int, address: str, base: int = 2) -> str:
    """The delay in steps of the resolution, then the address. The delay is rounded up so that no message is
    early. It is written in the base with one digit for each level."""
    if not 2 <= base <= 10:
        raise ValueError(f"the base is {base}, not one of 2 to 10")
    steps = -(-delay_ms // resolution_ms)
    key = address
    for _ in range(levels):
        steps, digit = divmod(steps, base)
        key = f"{digit}.{key}"
    if delay_ms < 0 or steps > 0:
        raise ValueError(f"a delay of {delay_ms} ms does not fit {levels} levels of {resolution_ms} ms in base {base}")
    if not address or len(key.encode()) > 255:
        raise ValueError(f"the address {address!r} is empty or too long")
    return key
