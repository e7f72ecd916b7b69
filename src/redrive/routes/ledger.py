# SPDX-License-Identifier: MIT
"""The ledger port of layer 3: which routes there are, and what they must remember. Pure: no I/O, no clock.

Each verb is one transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

RouteState: TypeAlias = Literal["running", "paused", "draining", "cancelling", "removed"]
"""``draining``: it gets no more events, and delivers what it has; ``cancelling``: what it has becomes dead letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRoute:
    """A route as it is stored: one version of it.

    Attributes:
        application: whose it is.
        name: its name.
        version: counted from 1; a change of its state is no new version.
        state: what it is doing.
        definition: the route as JSON.
        earlier_queues: queues of legs that it had before its source was changed.
        until: when draining ends, whether or not all is delivered.
        reason: why it is in that state, if a person or a route said so.
        changed_at: when it was last changed.
    """

    application: str
    name: str
    version: int
    state: RouteState
    definition: str
    earlier_queues: tuple[str, ...] = ()
    until: datetime | None = None
    reason: str = ""
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Tap:
    """A person who follows a route.

    Attributes:
        application: whose route.
        route: its name.
        queue: where what happens to its legs is sent.
        until: when it ends.
    """

    application: str
    route: str
    queue: str
    until: datetime


@dataclass(frozen=True, slots=True)
class RouteRevision:
    """What has to be looked at now and then.

    Attributes:
        number: grows with every change of a route.
        taps: who follows a route now.
    """

    number: int
    taps: tuple[Tap, ...] = ()


class RouteLedger(Protocol):
    """Which routes there are, and what they must remember."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...

    async def revision(self) -> RouteRevision:
        """Return the number of the last change, 0 if there was none, and who follows which route, by their queues."""
        ...

    async def routes(self, *, with_removed: bool = False) -> list[StoredRoute]:
        """Return the routes as they are now, in order of applications and names."""
        ...

    async def versions(self, application: str, name: str) -> list[StoredRoute]:
        """Return everything that a route has been, the newest first: a row for each change."""
        ...

    async def change(self, routes: Sequence[StoredRoute], expected: int | None = None) -> int | None:
        """Store routes, all or none; return the new revision number.

        ``changed_at`` is set to the time of the transaction.

        Args:
            routes: the routes as they shall be.
            expected: the revision number that they are based on; None: any. If it is not the last one, nothing is
                changed and the result is None. Without routes nothing is changed either, and the result is the last
                one.
        """
        ...

    async def claim(self, owner: str, key: str, holder: str, seconds: float) -> bool:
        """Claim a key for a while; False if another holder has it. The same holder may claim it again.

        A claim whose time is over is as good as none: the next holder gets the key for the whole time.

        Args:
            owner: what the key belongs to: an application and a route.
            key: the key.
            holder: who claims it: the id of an event.
            seconds: how long it is kept, from the first claim on; a later one of the same holder changes nothing.
        """
        ...

    async def release(self, owner: str, key: str, holder: str) -> None:
        """Give a claimed key back, if this holder has it."""
        ...

    async def forget_claims(self, limit: int = 1_000) -> int:
        """Forget a bounded number of claims whose time is over, and taps that have ended; return how many claims."""
        ...

    async def add_tap(self, application: str, route: str, queue: str, seconds: float) -> None:
        """Let a person follow a route for a while, counted from now; a queue follows one route at a time."""
        ...

    async def remove_tap(self, queue: str) -> None:
        """End that."""
        ...
