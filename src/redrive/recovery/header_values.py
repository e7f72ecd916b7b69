# SPDX-License-Identifier: MIT
"""Values of headers that other programs wrote: texts, numbers, instants, JSON. Pure: no I/O, no clock.

None of these raises. What a value cannot be read as is an empty text or None.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import unquote

LONGEST_TIME: Final = 64
_LONGEST_JSON = 262_144
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def as_text(value: object) -> str:
    """Return a text, or a number as text; empty if it is neither."""
    if isinstance(value, str):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Python prints no number of more than 4,300 digits.
    return str(value) if is_number and not (isinstance(value, int) and value.bit_length() > 256) else ""


def as_number(value: object) -> int | None:
    """Return a whole number from 0, also if it came as digits; None if it is anything else."""
    if isinstance(value, str):
        return int(value) if len(value) <= 18 and value.isascii() and value.isdigit() else None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < 2**63 else None


def as_instant(value: object) -> datetime | None:
    """Return the instant that a text or a number of seconds names, in UTC; None if it names none."""
    try:
        if isinstance(value, int | float):  # milliseconds, if as seconds it would be after the year 5000
            return _EPOCH + timedelta(seconds=value if abs(value) < 1e11 else value / 1_000)
        if not isinstance(value, str) or len(value) > LONGEST_TIME:
            return None
        text = value.strip()
        if text.endswith(" Z") and text[19:20] == ":":  # NServiceBus: 2024-05-01 12:30:00:123456 Z
            text = f"{text[:19]}.{text[20:-2]}+00:00"
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def as_json(value: object) -> object:
    """Return what a JSON text says; None if it is not JSON, or too long."""
    try:
        return json.loads(value) if isinstance(value, str) and len(value) <= _LONGEST_JSON else None
    except (ValueError, RecursionError):
        return None


def queue_of_address(address: str) -> str:
    """Return the queue in ``rabbitmq://host/vhost/orders?durable=true`` or in ``queue:orders``."""
    start, is_full, rest = address.partition("?")[0].rstrip("/").partition("://")
    return unquote(rest.partition("/")[2].rpartition("/")[2] if is_full else start.rpartition(":")[2])


def first_type(types: str) -> str:
    """Return the first type in ``Shop.PlaceOrder, Shop, Version=1.0.0.0;Shop.ICommand, …``, without its assembly.

    Commas in brackets belong to type arguments.
    """
    depth = 0
    for at, character in enumerate(types[:1_000]):
        depth += (character == "[") - (character == "]")
        if character in ",;" and depth <= 0:
            return types[:at].strip()
    return types.strip()
