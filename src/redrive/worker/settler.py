# SPDX-License-Identifier: MIT
"""Settling the messages of one queue: each once, fenced by its lock, however long the store does not answer."""

from collections.abc import Sequence

from redrive.broker import Abandon, Broker, Effect
from redrive.clock import utc
from redrive.errors import EngineUnavailable, LockLost, QueueNotFound, RedriveError
from redrive.worker.confirmation import confirmation_of
from redrive.worker.held_message import HeldMessage
from redrive.worker.lock_keeper import LockKeeper
from redrive.worker.reporter import Reporter
from redrive.worker.store_errors import Faults


class Settler:
    """Settles messages for the worker, and for handlers through their contexts.

    Args:
        broker: where the queue is.
        keeper: renews locks.
        faults: keeps trying while the store is away.
        reporter: reports locks that were lost.
        is_deleting: whether messages are deleted when they are received, so that there is nothing to settle.

    Attributes:
        is_stopping: whether the worker takes no more messages.
    """

    def __init__(
        self, broker: Broker, keeper: LockKeeper, faults: Faults, reporter: Reporter, *, is_deleting: bool
    ) -> None:
        self.broker = broker
        self.is_deleting = is_deleting
        self.is_stopping = False
        self._clock = broker.clock
        self._keeper = keeper
        self._faults = faults
        self._reporter = reporter

    async def settle(self, lease: HeldMessage, effects: Sequence[Effect], *, is_handled: bool = False) -> None:
        """Settle a message, once, however long the engine takes; if it is handled, its recovery is confirmed.

        Raises:
            LockLost: the lock has ended, or the message is settled already.
        """
        if lease.phase != "handling" or lease.is_lost:
            raise lease.lost()
        lease.phase = "settling"
        try:
            await self._faults.insist(
                "settle",
                lambda: self._apply(lease, effects, is_handled=is_handled),
                lambda: self._clock.monotonic() >= lease.held_until,
            )
        except (LockLost, EngineUnavailable) as error:
            if not lease.is_lost:
                lease.is_lost = True
                self._reporter.lost(lease, self._keeper.stalled_s)
            raise lease.lost() from error
        except RedriveError:
            lease.phase = "handling"  # the effects cannot be applied as they are; it is still ours
            raise
        lease.phase = "settled"

    async def _apply(self, lease: HeldMessage, effects: Sequence[Effect], *, is_handled: bool) -> None:
        received = lease.received
        confirmed = confirmation_of(received.message, received.queue, utc(self._clock.time())) if is_handled else []
        try:
            await self.broker.apply(*effects, *confirmed)
        except QueueNotFound as error:
            if not confirmed or error.queue != confirmed[0].queue:
                raise
            await self.broker.apply(*effects)  # recovery is not used any more; that must not cost the message

    async def renew(self, lease: HeldMessage) -> None:
        """Lengthen a lock.

        Raises:
            LockLost: the lock has ended, or the message is settled already.
        """
        if lease.phase != "handling" or lease.is_lost:
            raise lease.lost()
        await self._keeper.renew([lease])
        if lease.is_lost:
            raise lease.lost()

    async def give_back(self, lease: HeldMessage) -> None:
        """Give a message back to be delivered again, unless it is settled."""
        if lease.phase == "handling" and not lease.is_lost:
            lease.phase = "settled"
            try:
                await self.broker.engine.apply([Abandon(lease.lock)])
            except RedriveError as error:  # the lock will end by itself
                await self._faults.tell("release", error)
