# SPDX-License-Identifier: MIT
"""Requests that start something, and are made again when it is not known whether they arrived: the same key, once.

Operations and submissions store their key with them, so a second request gets the first one's result. Messages are sent
in the transaction that writes their key down, so they are sent exactly once. Every other request writes its key down
before it does something, and once more after it; a second request is refused, unless nothing came of the first.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from fastapi import Header

from redrive.access.store import RequestState
from redrive.errors import InvalidSetting, RequestRepeated, RequestUnderWay

if TYPE_CHECKING:
    from redrive.server.api.endpoint import Caller

T = TypeVar("T")

REMEMBERED_S: Final = 86_400.0
_WORKING_S: Final = 60.0

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

    If a server ends in the middle of it, the next request with the key makes it again, after a minute.

    Args:
        caller: who asks; keys of others are others.
        key: the key; None: it is made each time.
        call: what to do.
    """
    if key is None:
        return call
    name, store = _name(caller, key), caller.desk.access.store

    async def claimed() -> T:
        state = await store.begin_request(name, _WORKING_S, REMEMBERED_S)
        if state is not RequestState.BEGUN:
            raise RequestRepeated(key) if state is RequestState.DONE else RequestUnderWay(key)
        try:
            result = await call()
        except Exception:
            await store.forget_request(name)  # so that it can be made again
            raise
        await store.finish_request(name)
        return result

    return claimed


def done_with(caller: "Caller", key: str | None) -> Callable[[Any], object] | None:
    """Return the part of a transaction by which it is done once for a key (``inside=``); None without a key.

    Whatever happens, a request that is done that way is done exactly once.
    """
    return None if key is None else caller.desk.access.store.doing_request(_name(caller, key), key, REMEMBERED_S)


def _name(caller: "Caller", key: str) -> str:
    return sha256(f"{caller.principal.name}\0{caller.action}\0{key}".encode()).hexdigest()


def instant_in(name: str, text: str) -> datetime:
    """Return the instant that a request states."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidSetting(name, text, "must be a time in ISO 8601, with its zone: 2031-05-04T09:30:00Z") from None
