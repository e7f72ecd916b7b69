# SPDX-License-Identifier: MIT
"""Putting the parts together: the only place that knows which engines there are."""

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from redrive.broker import BlockingBroker, Broker, Engine
from redrive.clock import Clock, system_clock
from redrive.errors import InvalidSetting

__all__ = ["connect", "connect_blocking"]

_FORMS = "must be sqlite:///relative.db, sqlite:////absolute.db or sqlite:///:memory:"


def connect(url: str, *, clock: Clock = system_clock, upkeep_every: float = 5.0) -> Broker:
    """Return the broker at a URL, to be entered with ``async with``.

    Args:
        url: ``sqlite:///orders.db`` for a file beside the program, ``sqlite:////var/lib/orders.db`` for one elsewhere,
            ``sqlite:///:memory:`` for queues that end with the process. ``?synchronous=normal`` gives up durability in
            a power cut for speed.
        clock: where time comes from.
        upkeep_every: how often, in seconds, what nobody asks for is looked after.
    """
    return Broker(_engine(url, clock), clock=clock, upkeep_every=upkeep_every)


def connect_blocking(url: str, *, clock: Clock = system_clock, upkeep_every: float = 5.0) -> BlockingBroker:
    """Return the broker at a URL for a program without an event loop, to be entered with ``with``.

    Args:
        url: as for ``connect``.
        clock: where time comes from.
        upkeep_every: how often, in seconds, what nobody asks for is looked after.
    """
    return BlockingBroker(connect(url, clock=clock, upkeep_every=upkeep_every))


def _engine(url: str, clock: Clock) -> Engine:
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme != "sqlite" or parts.netloc or len(parts.path) < 2:
        raise InvalidSetting("url", url, _FORMS)
    from redrive.engines.sqlite import SqliteEngine

    options: dict[str, Any] = dict(parse_qsl(parts.query))
    for name in options:
        if name != "synchronous":
            raise InvalidSetting("url", url, f"has an unknown option {name!r}; there is: synchronous")
    return SqliteEngine(unquote(parts.path[1:]), clock=clock, **options)
