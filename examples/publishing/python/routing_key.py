def routing_key(delay_ms: int, units_ms: list[int], max_delay_ms: int, address: str) -> str:
    """A number for each unit, the largest unit first, then the address. The delay is rounded up to the last unit so
    that no message is early."""
    if not 0 <= delay_ms <= max_delay_ms:
        raise ValueError(f"a delay of {delay_ms} ms is not within 0 to {max_delay_ms} ms")
    rest = -(-delay_ms // units_ms[-1]) * units_ms[-1]
    key = ""
    for unit_ms in units_ms:
        number, rest = divmod(rest, unit_ms)
        key += f"{number}."
    key += address
    if not address or len(key.encode()) > 255:
        raise ValueError(f"the address {address!r} is empty or too long")
    return key
