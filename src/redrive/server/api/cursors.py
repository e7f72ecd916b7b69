# SPDX-License-Identifier: MIT
"""Cursors: where the next page of a list begins, as a text that means something to the server only. Pure: no I/O.

A cursor belongs to one question: with another filter it would continue a list that was never begun, so it is refused.
It is no secret and grants nothing: a caller that makes one up sees what it may see anyway.
"""

import base64
import binascii
import json
from hashlib import sha256
from typing import Final, TypeAlias

from redrive.errors import InvalidCursor

Position: TypeAlias = int | str
_LARGEST: Final = 2**63 - 1
_LONGEST: Final = 2_000
_CHECK: Final = 6


def write_cursor(question: str, position: Position) -> str:
    """Return the cursor for the page after a position.

    Args:
        question: what was asked: the same for every page.
        position: the last place of this page.
    """
    content = json.dumps(position).encode()
    return base64.urlsafe_b64encode(_check(question, content) + content).decode().rstrip("=")


def read_cursor(question: str, cursor: str, kind: type[Position]) -> Position:
    """Return the position in a cursor.

    Args:
        question: what is asked now.
        cursor: the text that came with the page before.
        kind: what a position in this list is.

    Raises:
        InvalidCursor: it is none, or that of another question.
    """
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        check, content = raw[:_CHECK], raw[_CHECK:]
        position = json.loads(content)
    except (binascii.Error, ValueError, RecursionError):
        raise InvalidCursor from None
    if check != _check(question, content) or type(position) is not kind or not _is_possible(position):
        raise InvalidCursor
    return position


def _check(question: str, content: bytes) -> bytes:
    return sha256(question.encode("utf-8", "surrogatepass") + b"\0" + content).digest()[:_CHECK]


def _is_possible(position: Position) -> bool:
    if isinstance(position, int):
        return 0 <= position <= _LARGEST
    return len(position) <= _LONGEST and "\0" not in position and position.isprintable()
