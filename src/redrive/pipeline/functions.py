# SPDX-License-Identifier: MIT
"""Calling the functions of a pipeline: async ones in the event loop, others in a thread."""

import asyncio
import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")


async def called(function: Callable[..., Any], argument: object, read: Callable[[Any], T]) -> T:
    """Return what a function says of its argument, read by another one.

    A generator is read where it runs, so that its code does not block the event loop either.
    """
    kind = _kind(function)
    if kind == "coroutine":
        return read(await function(argument))
    if kind == "async generator":
        return read([each async for each in function(argument)])
    return await asyncio.to_thread(lambda: read(function(argument)))


@lru_cache(maxsize=1_000)
def _kind(function: Callable[..., Any]) -> str:
    if inspect.isasyncgenfunction(function):
        return "async generator"
    return "coroutine" if inspect.iscoroutinefunction(function) else "other"
