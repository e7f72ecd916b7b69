# SPDX-License-Identifier: MIT
"""Keeping the locks of messages in hand: renewing those that are handled, letting go of those that wait too long.

It runs on the event loop beside the handlers; a handler that blocks does so in a thread, so it never holds this up.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import inf

from redrive.broker import Engine
from redrive.clock import Clock
from redrive.errors import EngineUnavailable
from redrive.worker.held_message import HeldMessage
from redrive.worker.store_errors import Faults


class LockKeeper:
    """Watches over the leases of one queue.

    Args:
        engine: where locks are renewed.
        clock: what time goes by.
        lock_s: how long a lock lasts.
        max_renewal_s: how long after its beginning a handler's lock is still renewed.
        faults: hears of renewals that failed.
        on_lost: is told of a lease whose lock has ended while it was handled.

    Attributes:
        on_stale: is told of a lease that has waited too long to be handled; the receiver's.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        *,
        lock_s: float,
        max_renewal_s: float,
        faults: Faults,
        on_lost: Callable[[HeldMessage], None],
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._lock_s = lock_s
        self._max_renewal_s = max_renewal_s
        self._faults = faults
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
        """How long the event loop has stood still, if that was long enough for a lock to end; otherwise 0."""
        late_s = max(self._late_s, self._clock.monotonic() - self._alarm_at)
        return late_s if late_s > self._lock_s / 4 else 0.0

    def has_time(self, lease: HeldMessage) -> bool:
        """Say whether a handler may still begin: a tenth of the lock is left at least."""
        return lease.held_until - self._clock.monotonic() > self._lock_s / 10

    def watch(self, lease: HeldMessage) -> None:
        """Begin to look after a lease, or note that its handler has begun."""
        self._leases.add(lease)
        # none needs attention before half of its lock is over, and that is mostly later than the alarm
        if lease.held_until - self._lock_s / 2 < self._alarm_at and self._due(lease) < self._alarm_at:
            self._hurry.set()

    def forget(self, lease: HeldMessage) -> None:
        """Stop looking after a lease."""
        self._leases.discard(lease)

    async def run(self) -> None:
        """Look after the leases until cancelled."""
        while True:
            self._alarm_at, self._late_s = min(map(self._due, self._leases), default=inf), 0.0
            await self._wait()
            self._alarm_at, self._late_s = inf, max(0.0, self._clock.monotonic() - self._alarm_at)
            await self._tend()

    async def renew(self, leases: list[HeldMessage]) -> None:
        """Renew locks together; a lease that turns out to be lost is marked so."""
        asked_at = self._clock.monotonic()
        renewed = await self._engine.renew([lease.lock for lease in leases])
        for lease, until in zip(leases, renewed, strict=True):
            if until is not None:
                lease.held_until = asked_at + self._lock_s
            elif lease.phase == "handling":  # otherwise it has just been settled, which ends a lock too
                self._lose(lease)

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
        # whoever will need it soon comes along: one renewal for all
        soon = [lease for lease in running if not lease.is_lost and self._may_renew(lease, now)]
        await self._renew([lease for lease in soon if lease.held_until - now <= 0.75 * self._lock_s])

    async def _renew(self, leases: list[HeldMessage]) -> None:
        if not leases:
            return
        try:
            await self.renew(leases)
        except EngineUnavailable as error:
            self._failures += 1
            self._not_before = self._clock.monotonic() + self._faults.wait_after(self._failures)
            await self._faults.tell("renew", error)
        else:
            self._failures = 0
            self._not_before = -inf

    def _due(self, lease: HeldMessage) -> float:
        """Return when a lease needs attention."""
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
