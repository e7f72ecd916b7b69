# SPDX-License-Identifier: MIT
"""Settles the messages of one queue: each once, fenced by its lock, however long the store does not answer."""

from collections.abc import Coroutine, Sequence
from typing import Any

from redrive.broker import Abandon, Broker, Effect, Send, spans
from redrive.broker.port import Browsing, Database, ability
from redrive.clock import utc
from redrive.errors import EngineUnavailable, LockLost, QueueNotFound, RedriveError, SessionLost
from redrive.telemetry import is_traced
from redrive.worker.confirmation import confirmation_of
from redrive.worker.held_message import HeldMessage
from redrive.worker.lock_keeper import LockKeeper
from redrive.worker.recoverability import OwnSql
from redrive.worker.reporter import Reporter
from redrive.worker.store_errors import StoreErrors


class Settler:
    """Settles messages for the worker, and for handlers through their contexts.

    Args:
        broker: where the queue is.
        keeper: renews locks.
        store_errors: retries while the store does not answer.
        reporter: reports locks that were lost.
        is_deleting: whether messages are deleted when they are received, so that there is nothing to settle.

    Attributes:
        is_stopping: whether the worker receives no more messages.
    """

    def __init__(
        self, broker: Broker, keeper: LockKeeper, store_errors: StoreErrors, reporter: Reporter, *, is_deleting: bool
    ) -> None:
        self.broker = broker
        self.is_deleting = is_deleting
        self.is_stopping = False
        self._clock = broker.clock
        self._keeper = keeper
        self._store_errors = store_errors
        self._reporter = reporter

    async def settle(
        self,
        lease: HeldMessage,
        effects: Sequence[Effect],
        *,
        is_handled: bool = False,
        inside: OwnSql | None = None,
        within: object | None = None,
    ) -> None:
        """Settle a message, once, however long the engine takes. If it was handled, confirm its recovery.

        Args:
            lease: the message.
            effects: the effect that settles it, and those of the same transaction.
            is_handled: whether it was handled.
            inside: the handler's own part of the transaction.
            within: a connection with an open transaction of the handler, which this joins.

        Raises:
            LockLost: the lock has ended, or the message is settled already.
        """
        may_settle = lease.phase == "handling" or (lease.phase == "joined" and within is not None)
        if not may_settle or lease.is_lost:
            raise lease.lost()
        lease.phase = "settling"
        apply = self._traced if is_traced() else self._apply
        settling = self._store_errors.keep_trying(
            "settle",
            lambda: apply(lease, effects, is_handled=is_handled, inside=inside, within=within),
            lambda: self._clock.monotonic() >= lease.held_until,
        )
        try:
            await (self._while_locked(lease, settling) if lease.has_joined else settling)
        except (LockLost, SessionLost, EngineUnavailable) as error:
            self._lose(lease)
            raise lease.lost() from error
        except Exception:
            lease.phase = "handling"  # the request was refused; the message is still locked
            raise
        lease.phase = "settled" if within is None else "joined"
        lease.has_joined = within is not None
        if lease.session is not None:
            lease.session.note(effects)

    async def _while_locked(self, lease: HeldMessage, settling: Coroutine[Any, Any, None]) -> None:
        """Settle while the lock lasts: a transaction that the handler left open would block this for ever."""
        try:
            async with self._clock.timeout(max(0.0, lease.held_until - self._clock.monotonic())):
                await settling
        except TimeoutError:
            raise lease.lost() from None

    def _lose(self, lease: HeldMessage) -> None:
        if not lease.is_lost:
            lease.is_lost = True
            self._reporter.lost(lease, self._keeper.stalled_s)

    async def _apply(
        self,
        lease: HeldMessage,
        effects: Sequence[Effect],
        *,
        is_handled: bool,
        inside: OwnSql | None,
        within: object | None,
    ) -> None:
        message = lease.received.message
        confirmed: list[Send] = []
        if is_handled and message.headers:  # a recovered copy has headers
            confirmed = confirmation_of(message, lease.received.queue, utc(self._clock.time()))
        if not confirmed and len(effects) == 1 and within is None:  # no effect was added, so there is none to check
            if inside is None:
                await self.broker.engine.apply(effects)
                return
            if callable(inside):
                await ability(self.broker.engine, Database).apply_inside(effects, inside)
                return
        try:
            await self.broker.apply(*effects, *confirmed, inside=inside, within=within)
        except QueueNotFound as error:
            if not confirmed or error.queue != confirmed[0].queue:
                raise
            # the queue for confirmations was deleted; the message must be settled all the same
            await self.broker.apply(*effects, inside=inside, within=within)

    async def _traced(self, lease: HeldMessage, effects: Sequence[Effect], **how: Any) -> None:
        with spans.settling(effects, [lease.received.message]):
            await self._apply(lease, effects, **how)

    async def has_committed(self, lease: HeldMessage) -> bool:
        """Say whether the transaction that completes a message was committed; if not, the message is still locked.

        Only the store knows: the handler may have committed its transaction, rolled it back or left it open.
        """
        received = lease.received
        browsing = ability(self.broker.engine, Browsing)
        found = await self._store_errors.keep_trying(
            "settle", lambda: browsing.peek(received.queue, 1, start=received.sequence)
        )
        is_there = any(each.sequence == received.sequence for each in found)
        lease.phase = "handling" if is_there else "settled"
        return not is_there

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
        """Give a message back for redelivery, unless it is settled."""
        if lease.phase not in ("handling", "joined") or lease.is_lost:
            return
        may_be_done, lease.phase = lease.phase == "joined", "settled"
        try:
            await self.broker.engine.apply([Abandon(lease.lock)])
        except RedriveError as error:  # the lock will end by itself
            if not (may_be_done and isinstance(error, LockLost)):
                await self._store_errors.report("release", error)
