# SPDX-License-Identifier: MIT
"""An event as one line of a file of JSON lines. Pure: no I/O, no clock."""

import json
from base64 import b64encode
from typing import Never


def json_line(body: bytes, key: str | None = None) -> bytes:
    """Return the line of an event, with its end.

    JSON stays as it is, letter by letter; only the ends of lines between its values become spaces. Another text becomes
    a JSON text, and other bytes become ``{"base64": "…"}``. With a key the line is ``{"key": …, "body": …}``.
    """
    value = _value(body)
    if key is not None:
        value = b'{"key": %b, "body": %b}' % (json.dumps(key).encode(), value)
    return value + b"\n"


def _value(body: bytes) -> bytes:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return json.dumps({"base64": b64encode(body).decode()}).encode()
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return json.dumps(text).encode()
    return body.strip().replace(b"\r", b" ").replace(b"\n", b" ")  # inside of a JSON text they are escaped


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is not JSON")
