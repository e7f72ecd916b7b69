# SPDX-License-Identifier: MIT
"""Calling the functions of a pipeline: async ones in the event loop, others in a thread."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def called(function: Callable[..., Any], argument: object, read: Callable[[Any], T]) -> T:
    """Return what a function says of its argument, read by another one.

    A generator is read where it runs, so that its code does not block the event loop either.
    """
    if inspect.isasyncgenfunction(function):
        return read([each async for each in function(argument)])
    if inspect.iscoroutinefunction(function):
        return read(await function(argument))
    return await asyncio.to_thread(lambda: read(function(argument)))
