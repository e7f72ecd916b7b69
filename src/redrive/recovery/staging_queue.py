# SPDX-License-Identifier: MIT
"""A lane's staging queue: what is in it, and whether more copies can still come out of it.

Its dead-letter queue is part of it. A copy that was dead-lettered, because its readers died too often, is a copy like
any other: it is read, and forwarded, taken back or dropped. So no copy can wait there unseen.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from redrive.broker import Abandon, Broker, Complete, Effect, Received, dead_letter_queue
from redrive.broker.rules import staging_queue
from redrive.errors import LockLost, QueueNotFound
from redrive.recovery.own_queues import PAGE_BYTES, declare_own

LONGEST_NAP_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSettings:
    """How lanes work.

    Attributes:
        page: how many messages are read, staged or forwarded at a time, unless they are large.
        eject_after: how often a message may be refused while others get through.
        lock_duration: for how long a copy in a staging queue stays locked when a process dies with it.
        silence: seconds without a message after which a staging queue counts as empty, if the engine cannot count it.
    """

    page: int = 1_000
    eject_after: int = 5
    lock_duration: float = 10.0
    silence: float = 45.0


class StagingQueue:
    """The staging queue of a lane.

    Args:
        lane: the destination.
        broker: where the queues are.
        settings: how lanes work.

    Attributes:
        name: its name.
        was_deleted: whether it was deleted, with everything in it.
    """

    def __init__(self, lane: str, broker: Broker, settings: LaneSettings) -> None:
        self.name = staging_queue(lane)
        self.was_deleted = False
        self._engine = broker.engine
        self._clock = broker.clock
        self._settings = settings
        self._quiet_since = 0.0

    async def open(self) -> None:
        """Declare it, unless it exists."""
        self.was_deleted = await declare_own(self._engine, self.name, self._settings.lock_duration)

    def listen(self) -> None:
        """Begin to wait for copies, or for silence."""
        self._quiet_since = self._clock.monotonic()

    async def lock(self, limit: int) -> Sequence[Received]:
        """Lock the next copies, as many as fit into memory."""
        for queue in (self.name, dead_letter_queue(self.name)):
            try:
                page = await self._engine.lock_next(queue, limit, max_bytes=PAGE_BYTES)
            except QueueNotFound:
                await self.open()
                return ()
            if page:
                self._quiet_since = self._clock.monotonic()
                return page
        return ()

    async def is_drained(self, wait: Callable[[str, float], Awaitable[object]]) -> bool:
        """Say whether no more copies can come out of it; if that is not certain, wait a little.

        Args:
            wait: waits for a message in a queue, for so many seconds at most.
        """
        if not self._engine.capabilities.counts_exactly:
            left = self._settings.silence - (self._clock.monotonic() - self._quiet_since)
            if left > 0:
                await wait(self.name, min(left, LONGEST_NAP_S))
            return left <= 0
        try:
            info = (await self._engine.inspect(self.name))[0]
        except QueueNotFound:
            await self.open()
            return True
        if not info.ready + info.locked + info.scheduled + info.deferred + info.dead:
            return True
        if not info.ready:  # a process that died has locked them, until the locks end
            await wait(self.name, LONGEST_NAP_S)
        return False

    async def settle(self, effect: Effect) -> None:
        """Settle a copy; if its lock is lost, it is delivered again."""
        try:
            await self._engine.apply([effect])
        except LockLost:
            return

    async def give_back(self, copies: Sequence[Received]) -> None:
        """Give copies back, so that any process can lock them."""
        await self._settle_all([Abandon(copy.lock, uncount=True) for copy in copies if copy.lock is not None])

    async def drop(self, copies: Sequence[Received]) -> None:
        """Remove copies that must not be sent."""
        await self._settle_all(removals(copies))

    async def _settle_all(self, effects: Sequence[Effect]) -> None:
        """Settle copies together, or one by one if a lock was lost."""
        if not effects:
            return
        try:
            await self._engine.apply(effects)
        except LockLost:
            for effect in effects:
                await self.settle(effect)


def removals(copies: Sequence[Received]) -> list[Effect]:
    """Return the effects that remove copies from the staging queue."""
    return [Complete(copy.lock) for copy in copies if copy.lock is not None]
