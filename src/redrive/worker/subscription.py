# SPDX-License-Identifier: MIT
"""One handler at work on one queue: lock, handle, settle."""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from math import inf
from typing import Any

from redrive.broker import Abandon, Broker, Complete, Effect, QueueInfo
from redrive.clock import pause, utc
from redrive.errors import EngineUnavailable, LockLost, QueueNotFound, RedriveError, UsageError
from redrive.worker.call import Caller
from redrive.worker.confirmation import confirmation_of
from redrive.worker.context import BlockingContext, Context
from redrive.worker.environment import Surroundings
from redrive.worker.exception import source_of, trace_of
from redrive.worker.handler import Handler
from redrive.worker.held_message import HeldMessage
from redrive.worker.hung_handlers import LATEST_END_S, HungHandlers
from redrive.worker.lock_keeper import LockKeeper
from redrive.worker.pacer import Pacer
from redrive.worker.receiver import Receiver
from redrive.worker.recoverability import (
    POISON,
    Decision,
    Discard,
    HandlerFailure,
    MoveToError,
    Recoverability,
    RedeliverLater,
    RedeliverNow,
    decide,
)
from redrive.worker.reporter import Reporter
from redrive.worker.settlement import buried, effects_of
from redrive.worker.store_errors import Faults


class Subscription:
    """The messages of one queue on their way through one handler.

    Attributes:
        is_stopping: whether no more messages are taken.
    """

    def __init__(self, handler: Handler, queue: QueueInfo, around: Surroundings) -> None:
        self._handler = handler
        self._around = around
        self._settings = queue.settings
        self._clock = around.broker.clock
        self.is_stopping = False
        self._running: set[HeldMessage] = set()
        self._busy: set[HeldMessage] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._fetching: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._pausing: asyncio.Task[None] | None = None
        self._faults = Faults(
            handler.queue,
            clock=self._clock,
            chance=around.chance,
            report=around.report,
            on_error=around.on_error,
            reconnect=around.reconnect,
        )
        self._reporter = Reporter(handler.queue, self._clock, around.report)
        self._hung = HungHandlers(handler, self._clock, around.report, around.on_fatal)
        self._keeper = self._new_keeper()
        self._receiver = self._new_receiver()
        self._pacer = Pacer(handler, self._clock, self._settings.lock_duration, around.chance, around.report)
        self._caller = Caller(handler, self._clock, around.chance, self._note_overdue)

    def _new_keeper(self) -> LockKeeper:
        return LockKeeper(
            self._around.broker.engine,
            self._clock,
            lock_s=self._settings.lock_duration,
            max_renewal_s=self._handler.max_lock_renewal,
            faults=self._faults,
            on_lost=self._note_lost,
            on_stale=self._drop,
        )

    def _new_receiver(self) -> Receiver:
        return Receiver(
            self._handler.queue,
            self._around.broker.engine,
            self._clock,
            lock_s=inf if self._handler.receive_and_delete else self._settings.lock_duration,
            faults=self._faults,
            keeper=self._keeper,
            wanted=self._wanted,
            on_arrival=self._pump,
            on_lost=self._reporter.lost,
            delete=self._handler.receive_and_delete,
        )

    @property
    def broker(self) -> Broker:
        """Where the queue is."""
        return self._around.broker

    @property
    def is_by_hand(self) -> bool:
        """Whether the handler settles its messages itself."""
        return not self._handler.auto_complete

    @property
    def is_deleting(self) -> bool:
        """Whether messages are deleted when they are received."""
        return self._handler.receive_and_delete

    # --- starting and stopping

    def start(self) -> None:
        """Begin to receive messages and to handle them."""
        self._fetching = self._spawn(self._receiver.run())
        self._keeping = self._spawn(self._keeper.run())

    async def stop_receiving(self) -> None:
        """Take no more messages, and give back those that wait."""
        self.is_stopping = True
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])
        self._receiver.clear()
        await self._receiver.released()

    async def finished(self) -> None:
        """Wait until no handler is running, but for those that hang."""
        while tasks := [lease.task for lease in self._running if lease.task is not None]:
            await asyncio.wait(tasks)

    def cancel_handlers(self) -> None:
        """Interrupt every handler; its message is given back when it has ended."""
        for lease in (*self._running, *self._hung):
            _cancel(lease)

    async def release(self) -> None:
        """Give back everything at once, whatever its handler is doing."""
        held = [lease for lease in self._running if lease.phase == "handling" and not lease.is_lost]
        await asyncio.gather(*(self._give_back(lease) for lease in held))

    async def close(self) -> None:
        """End what runs in the background."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._caller.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self._check)
        return task

    def _check(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._around.on_fatal(error)

    # --- taking messages

    def _wanted(self) -> int:
        if self._pacer.is_slow:
            is_idle = not self._running and not len(self._receiver)
            return 1 if is_idle and self._clock.monotonic() >= self._pacer.resume_at else 0
        return self._handler.concurrency + self._handler.prefetch - len(self._busy) - len(self._receiver)

    def _pump(self) -> None:
        """Hand messages to the handler, as many as it takes at a time."""
        limit = self._handler.concurrency  # a slow worker has no more than one message in hand
        is_closed = self.is_stopping and not self.is_deleting  # what is deleted cannot be given back
        while len(self._busy) < limit and not is_closed and (lease := self._receiver.next()) is not None:
            lease.phase = "settled" if self.is_deleting else "handling"
            lease.began_at = self._clock.monotonic()
            lease.is_probe = self._pacer.is_slow
            self._keeper.watch(lease)
            self._running.add(lease)
            self._busy.add(lease)
            lease.task = asyncio.create_task(self._process(lease), name=f"redrive-handler-{lease.id}")
            lease.task.add_done_callback(partial(self._ended, lease))

    def _ended(self, lease: HeldMessage, task: asyncio.Task[None]) -> None:
        self._running.discard(lease)
        self._hung.discard(lease)
        self._keeper.forget(lease)
        self._check(task)
        self._free(lease)

    def _free(self, lease: HeldMessage) -> None:
        """Make room for the next message: this one's handler has ended, though it may not be settled yet."""
        self._busy.discard(lease)
        self._receiver.wake()
        self._pump()

    def _drop(self, lease: HeldMessage) -> None:
        self._receiver.drop(lease)

    # --- handlers that go on without their message

    def _note_lost(self, lease: HeldMessage) -> None:
        self._reporter.lost(lease, self._keeper.stalled_s)
        if lease.phase != "handling":
            return
        if self._handler.is_async:
            _cancel(lease)
        self._give_up_later(lease)

    def _note_overdue(self, lease: HeldMessage, timeout: float) -> None:
        self._reporter.overdue(lease, timeout)
        if lease.phase == "settled":  # by hand: there is no lock that it could lose
            self._give_up_later(lease)

    def _give_up_later(self, lease: HeldMessage) -> None:
        _task = self._spawn(self._give_up_on(lease))

    async def _give_up_on(self, lease: HeldMessage) -> None:
        """Give a handler's place to the next message, unless it ends soon."""
        await pause(self._clock, LATEST_END_S)
        if lease in self._running:
            self._running.discard(lease)
            self._hung.add(lease)
            self._free(lease)

    # --- handling

    async def _process(self, lease: HeldMessage) -> None:
        context = self._context(lease)
        try:
            await self._caller.call(lease, context)
            if self._handler.auto_complete and not self.is_deleting:
                self._free(lease)  # so that the next messages are locked in the transaction that completes this one
                await self.settle(lease, [Complete(lease.lock), *context.take_sends()], is_handled=True)
            else:
                self._check_settled(lease)
        except asyncio.CancelledError:
            if lease.is_cancelled:
                await self._give_back(lease)
                return
            await self._failed(lease, RuntimeError("the handler was cancelled from inside"))
        except KeyboardInterrupt as interrupt:  # it ends the program, as everywhere on an event loop
            await self._give_back(lease)
            self._around.on_fatal(interrupt)
        except Exception as error:  # noqa: BLE001 - what becomes of it is for recoverability to say
            await self._failed(lease, error)
        else:
            self._succeeded(lease)

    def _check_settled(self, lease: HeldMessage) -> None:
        if lease.phase == "handling":
            raise UsageError(
                f"{self._handler.name} returned without settling its message; await context.complete() or another"
            )

    def _context(self, lease: HeldMessage) -> Context | BlockingContext:
        if self._handler.is_async:
            return Context(lease, self)
        return BlockingContext(lease, self, asyncio.get_running_loop())

    async def settle(self, lease: HeldMessage, effects: Sequence[Effect], *, is_handled: bool = False) -> None:
        """Settle a message, once, however long the engine takes; if it is handled, whoever recovered it is told.

        Raises:
            LockLost: it is not ours any more, or settled already.
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
        told = confirmation_of(received.message, received.queue, utc(self._clock.time())) if is_handled else []
        try:
            await self._around.broker.apply(*effects, *told)
        except QueueNotFound as error:
            if not told or error.queue != told[0].queue:
                raise
            await self._around.broker.apply(*effects)  # nobody listens any more; that must not cost the message

    async def renew(self, lease: HeldMessage) -> None:
        """Lengthen a lock; ``LockLost`` if it is not ours any more."""
        if lease.phase != "handling" or lease.is_lost:
            raise lease.lost()
        await self._keeper.renew([lease])
        if lease.is_lost:
            raise lease.lost()

    async def _give_back(self, lease: HeldMessage) -> None:
        if self.is_deleting:
            error = RuntimeError("the worker stopped before the handler ended")
            self._reporter.failed(self._facts(lease, error), "dropped")
        elif lease.phase == "handling" and not lease.is_lost:
            lease.phase = "settled"
            try:
                await self._around.broker.engine.apply([Abandon(lease.lock)])
            except RedriveError as error:  # the lock will end by itself
                await self._faults.tell("release", error)

    # --- what came of it

    def _succeeded(self, lease: HeldMessage) -> None:
        self._pacer.succeeded()
        self._note_time(lease)

    async def _failed(self, lease: HeldMessage, error: Exception) -> None:
        failure = self._facts(lease, error)
        if lease.phase != "handling" or lease.is_lost:
            outcome = "dropped" if self.is_deleting else "lock_lost" if lease.is_lost else "settled"
            if self.is_deleting or not isinstance(error, LockLost):
                self._reporter.failed(failure, outcome)
            if self.is_deleting:
                self._slow_down(lease)
            return
        decision = await self._decide(failure)
        try:
            decision = await self._carry_out(decision, failure, lease)
        except LockLost:
            return
        self._reporter.decided(decision, failure)
        if not isinstance(decision, Discard) and not (isinstance(decision, MoveToError) and decision.reason == POISON):
            self._slow_down(lease)
        self._note_time(lease)

    def _facts(self, lease: HeldMessage, error: Exception) -> HandlerFailure:
        return HandlerFailure(
            error=error,
            queue=self._handler.queue,
            message=lease.received.message,
            delivery_count=lease.received.delivery_count,
            max_delivery_count=self._settings.max_delivery_count,
            failed_at=utc(self._clock.time()),
            chance=self._around.chance(),
            source=source_of(error),
            stack_trace=trace_of(error),
            host=self._around.host,
            worker=self._around.worker,
        )

    async def _decide(self, failure: HandlerFailure) -> Decision:
        try:
            return _checked(self._handler.decide(failure))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's function; the message must not pay for it
            told = error if isinstance(error, Exception) else RuntimeError(f"it raised {error!r}")
            await self._faults.tell("recoverability", told)
            return decide(failure, Recoverability())

    async def _carry_out(self, decision: Decision, failure: HandlerFailure, lease: HeldMessage) -> Decision:
        try:
            effects, is_handled = effects_of(decision, failure, lease.lock), isinstance(decision, Discard)
            await self.settle(lease, effects, is_handled=is_handled)
        except LockLost:
            raise
        except RedriveError as error:  # the error queue is gone, or the copy too large for it
            await self._faults.tell("move", error)
            reason = decision.reason if isinstance(decision, MoveToError) else type(error).__name__
            decision = MoveToError(reason, f"{self._handler.queue}: {error}")
            await self.settle(lease, [buried(decision, failure, lease.lock)])
        return decision

    def _slow_down(self, lease: HeldMessage) -> None:
        if seconds := self._pacer.failed(is_probe=lease.is_probe):
            self._receiver.clear()
            self._pausing = self._spawn(self._wake_after(seconds))

    async def _wake_after(self, seconds: float) -> None:
        await pause(self._clock, seconds)
        self._receiver.wake()

    def _note_time(self, lease: HeldMessage) -> None:
        self._pacer.took(self._clock.monotonic() - lease.began_at)


def _checked(decision: Decision) -> Decision:
    if not isinstance(decision, RedeliverNow | RedeliverLater | MoveToError | Discard):
        raise UsageError(f"recoverability returned {decision!r}, which is no decision")
    return decision


def _cancel(lease: HeldMessage) -> None:
    lease.is_cancelled = True
    if lease.task is not None:
        lease.task.cancel()
