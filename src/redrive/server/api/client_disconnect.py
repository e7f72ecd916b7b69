# SPDX-License-Identifier: MIT
"""Ends what a client has asked for if the client goes away before it is answered."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeVar

from starlette.exceptions import HTTPException

from redrive.http.listener import Receive

T = TypeVar("T")


async def unless_left(receive: Receive, call: Callable[[], Awaitable[T]]) -> T:
    """Return what a call returns; cancel it if the client goes away.

    Args:
        receive: receives what else the client sends; the request itself has been read, or has no body.
        call: what is done for the client.

    Raises:
        HTTPException: the client has gone away; it will not see this.
    """
    asking, leaving = asyncio.ensure_future(call()), asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait([asking, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, "the client has gone away")
        return await asking
    finally:
        for each in (asking, leaving):
            each.cancel()
        await asyncio.wait([asking, leaving])


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
