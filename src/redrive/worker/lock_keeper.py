# SPDX-License-Identifier: MIT
"""Keeps the locks of a worker's messages: renews those being handled, gives up those that wait too long.

It runs on the event loop beside the handlers. Blocking handlers run in threads, so they never delay it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import inf

from redrive.broker import Engine
from redrive.broker.port import Sessions, ability
from redrive.clock import Clock
from redrive.errors import EngineUnavailable, SessionLost
from redrive.worker.held_message import HeldMessage, HeldSession
from redrive.worker.store_errors import StoreErrors


class LockKeeper:
    """Renews the locks of one queue's messages.

    Args:
        engine: where locks are renewed.
        clock: the clock.
        lock_s: how long a lock lasts.
        max_renewal_s: for how long after a handler's start its lock is renewed.
        store_errors: reports renewals that failed.
        on_lost: called with a message whose lock has ended while it was handled.

    Attributes:
        on_stale: called with a message that has waited too long to be handled; set by the receiver.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        *,
        lock_s: float,
        max_renewal_s: float,
        store_errors: StoreErrors,
        on_lost: Callable[[HeldMessage], None],
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._lock_s = lock_s
        self._max_renewal_s = max_renewal_s
        self._store_errors = store_errors
        self._on_lost = on_lost
        self.on_stale: Callable[[HeldMessage], None] = self.forget
        self._leases: set[HeldMessage] = set()
        self._alarm_at = inf
        self._hurry = asyncio.Event()
        self._failures = 0
        self._not_before = -inf
        self._late_s = 0.0

    @property
    def stalled_s(self) -> float:
        """For how long the event loop was blocked, if that was long enough for a lock to end; otherwise 0."""
        late_s = max(self._late_s, self._clock.monotonic() - self._alarm_at)
        return late_s if late_s > self._lock_s / 4 else 0.0

    def has_time(self, lease: HeldMessage) -> bool:
        """Say whether a handler may still begin: at least a tenth of the lock is left."""
        return lease.held_until - self._clock.monotonic() > self._lock_s / 10

    def watch(self, lease: HeldMessage) -> None:
        """Begin to keep a message's lock, or note that its handler has begun."""
        self._leases.add(lease)
        # no lock is due before half of it is over, which is mostly later than the next wake-up
        if lease.held_until - self._lock_s / 2 < self._alarm_at and self._due(lease) < self._alarm_at:
            self._hurry.set()

    def forget(self, lease: HeldMessage) -> None:
        """Stop keeping a message's lock."""
        self._leases.discard(lease)

    async def run(self) -> None:
        """Keep the locks until cancelled."""
        while True:
            self._alarm_at, self._late_s = min(map(self._due, self._leases), default=inf), 0.0
            await self._wait()
            self._alarm_at, self._late_s = inf, max(0.0, self._clock.monotonic() - self._alarm_at)
            await self._tend()

    async def renew(self, leases: list[HeldMessage]) -> None:
        """Renew locks together; a message whose lock is lost is marked so."""
        if leases and leases[0].session is not None:  # all of a queue's messages have one, or none has
            await asyncio.gather(*map(self._renew_through_session, leases))
            return
        asked_at = self._clock.monotonic()
        renewed = await self._engine.renew([lease.lock for lease in leases])
        for lease, until in zip(leases, renewed, strict=True):
            if until is not None:
                lease.held_until = asked_at + self._lock_s
            elif lease.phase == "handling":  # otherwise it has just been settled, which ends a lock too
                self._lose(lease)

    async def renew_session(self, session: HeldSession) -> None:
        """Renew the lock on a session, and on the messages received through it.

        Raises:
            SessionLost: it has ended already.
        """
        asked_at = self._clock.monotonic()
        session.lock = await ability(self._engine, Sessions).renew_session(session.lock)
        session.held_until = asked_at + self._lock_s

    async def _renew_through_session(self, lease: HeldMessage) -> None:
        session = lease.session
        if session is None or lease.phase not in ("handling", "settling"):
            return
        try:
            await self.renew_session(session)
        except SessionLost:
            if lease.phase == "handling":
                self._lose(lease)
        else:
            lease.held_until = session.held_until

    async def _wait(self) -> None:
        if self._alarm_at == inf:
            await self._hurry.wait()
        else:
            with suppress(TimeoutError):
                async with self._clock.timeout(max(0.0, self._alarm_at - self._clock.monotonic())):
                    await self._hurry.wait()
        self._hurry.clear()

    async def _tend(self) -> None:
        now = self._clock.monotonic()
        for lease in [each for each in self._leases if each.phase == "prefetched" and not self.has_time(each)]:
            self.forget(lease)
            self.on_stale(lease)
        running = [lease for lease in self._leases if lease.is_running and not lease.is_lost]
        for lease in running:
            if lease.held_until <= now:
                self._lose(lease)
        if not any(self._due(lease) <= now for lease in running if not lease.is_lost):
            return
        # locks that are due soon are renewed along: one renewal for all
        soon = [lease for lease in running if not lease.is_lost and self._may_renew(lease, now)]
        await self._renew([lease for lease in soon if lease.held_until - now <= 0.75 * self._lock_s])

    async def _renew(self, leases: list[HeldMessage]) -> None:
        if not leases:
            return
        try:
            await self.renew(leases)
        except EngineUnavailable as error:
            self._failures += 1
            self._not_before = self._clock.monotonic() + self._store_errors.wait_after(self._failures)
            await self._store_errors.report("renew", error)
        else:
            self._failures = 0
            self._not_before = -inf

    def _due(self, lease: HeldMessage) -> float:
        """Return when a message's lock is due for renewal, or for giving up."""
        if lease.is_lost:
            return inf
        if lease.phase == "prefetched":
            return lease.held_until - self._lock_s / 10
        if not lease.is_running:
            return inf
        renew_at = max(lease.held_until - self._lock_s / 2, self._not_before)
        return min(renew_at, lease.held_until) if self._may_renew(lease, renew_at) else lease.held_until

    def _may_renew(self, lease: HeldMessage, at: float) -> bool:
        return max(at, self._clock.monotonic()) < lease.began_at + self._max_renewal_s

    def _lose(self, lease: HeldMessage) -> None:
        lease.is_lost = True
        self._on_lost(lease)
