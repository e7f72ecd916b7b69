# SPDX-License-Identifier: MIT
"""Requests that start something, and are made again when it is not known whether they arrived: the same key, once.

Operations and submissions store their key with them, so a second request gets the first one's result. Every other
request writes its key down before it does something, in a queue of Redrive's own that drops duplicates; a second
request is refused. So it is done once at most, by whichever server.
"""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from fastapi import Header

from redrive.broker import Message
from redrive.errors import RequestRepeated

if TYPE_CHECKING:
    from redrive.server.api.endpoint import Caller

T = TypeVar("T")

REQUESTS: Final = "redrive.requests"
"""The queue whose duplicate detection remembers keys."""

REMEMBERED_S: Final = 86_400.0
_SHORTLY_S: Final = 1.0

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="Names the request: the same key twice is one request.",
        examples=["5f0c1e9a-recover-orders"],
    ),
]


def once(caller: "Caller", key: str | None, call: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
    """Return a call that is made once for a key within a day, however often it is requested.

    Args:
        caller: who asks; keys of others are others.
        key: the key; None: it is made each time.
        call: what to do.
    """
    if key is None:
        return call

    async def claimed() -> T:
        broker = caller.desk.broker
        await broker.declare(REQUESTS, duplicate_detection=REMEMBERED_S, default_ttl=_SHORTLY_S)
        name = sha256(f"{caller.principal.name}\0{caller.action}\0{key}".encode()).hexdigest()
        if await broker.send(REQUESTS, Message(b"", id=name)) is None:
            raise RequestRepeated(key)
        return await call()

    return claimed
