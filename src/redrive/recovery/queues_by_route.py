# SPDX-License-Identifier: MIT
"""Which queues the routes have: what a filter with ``route:`` means. The layer of routes is not known here."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

QueuesByRoute: TypeAlias = Callable[[], Awaitable[Mapping[str, Sequence[str]]]]
"""Returns the queues of every route there is, by its name: what a filter with ``route:`` means."""


async def without_routes() -> Mapping[str, Sequence[str]]:
    """Return the queues of routes where there are none."""
    return {}
