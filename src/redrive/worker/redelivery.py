# SPDX-License-Identifier: MIT
"""Deals with a message whose handler failed: facts, decision, effects, report."""

from dataclasses import replace

from redrive.broker import QueueSettings, spans
from redrive.clock import utc
from redrive.errors import LockLost, RedriveError, UsageError
from redrive.worker.environment import WorkerEnvironment
from redrive.worker.exception import source_of, trace_of
from redrive.worker.handler import Handler
from redrive.worker.held_message import HeldMessage
from redrive.worker.recoverability import (
    POISON,
    REJECTED,
    Decision,
    Discard,
    HandlerFailure,
    MoveToError,
    Postpone,
    Recoverability,
    RedeliverLater,
    RedeliverNow,
    decide,
)
from redrive.worker.reporter import Reporter
from redrive.worker.settlement import buried, effects_of
from redrive.worker.settler import Settler
from redrive.worker.store_errors import StoreErrors


class Redelivery:
    """Deals with the failures of one handler.

    Args:
        handler: the handler, which decides.
        settings: its queue's.
        environment: what the worker's handlers share.
        settler: carries out what is decided.
        store_errors: reports decisions that cannot be carried out.
        reporter: reports failures.
    """

    def __init__(
        self,
        handler: Handler,
        settings: QueueSettings,
        environment: WorkerEnvironment,
        *,
        settler: Settler,
        store_errors: StoreErrors,
        reporter: Reporter,
    ) -> None:
        self._handler = handler
        self._settings = settings
        self._environment = environment
        self._settler = settler
        self._store_errors = store_errors
        self._reporter = reporter

    async def failed(self, lease: HeldMessage, error: Exception) -> Decision | None:
        """Deal with a failure; return the decision, or None if there was nothing left to decide."""
        failure = self._facts(lease, error)
        if lease.phase == "joined":
            await self._settler.has_committed(lease)
        if lease.phase != "handling" or lease.is_lost:
            outcome = "dropped" if self._settler.is_deleting else "lock_lost" if lease.is_lost else "settled"
            if self._settler.is_deleting or not isinstance(error, LockLost):
                self._reporter.failed(failure, outcome)
            return None
        decision = await self._decide(failure)
        try:
            decision = await self._carry_out(decision, failure, lease)
        except LockLost:
            return None
        self._reporter.decided(decision, failure)
        return decision

    def dropped(self, lease: HeldMessage) -> None:
        """Report a message that is lost because the worker stopped before its handler ended."""
        error = RuntimeError("the worker stopped before the handler ended")
        self._reporter.failed(self._facts(lease, error), "dropped")

    def _facts(self, lease: HeldMessage, error: Exception) -> HandlerFailure:
        return HandlerFailure(
            error=error,
            queue=self._handler.queue,
            message=lease.received.message,
            delivery_count=lease.received.delivery_count,
            max_delivery_count=self._settings.max_delivery_count,
            failed_at=utc(self._environment.broker.clock.time()),
            chance=self._environment.chance(),
            source=source_of(error),
            stack_trace=trace_of(error),
            host=self._environment.host,
            worker=self._environment.worker,
        )

    async def _decide(self, failure: HandlerFailure) -> Decision:
        try:
            return _checked(self._handler.decide(failure))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the program's function; its error must not cost the message
            reported = error if isinstance(error, Exception) else RuntimeError(f"it raised {error!r}")
            await self._store_errors.report("recoverability", reported)
            return decide(failure, Recoverability())

    async def _carry_out(self, decision: Decision, failure: HandlerFailure, lease: HeldMessage) -> Decision:
        try:
            now, delay = decision, 0.0
            if lease.session is not None and isinstance(decision, RedeliverLater | Postpone):
                # it is ready again at once, and its session waits: nothing in it may overtake the message
                now, delay = replace(decision, delay=0.0), decision.delay
            await self._settler.settle(
                lease,
                spans.with_attempt(effects_of(now, failure, lease.lock)),
                is_handled=isinstance(decision, Discard),
                inside=getattr(decision, "inside", None),
            )
            if lease.session is not None and delay:
                lease.session.hold_up(delay)
        except LockLost:
            raise
        except RedriveError as error:  # the error queue is gone, or the copy too large for it
            await self._store_errors.report("move", error)
            reason = decision.reason if isinstance(decision, MoveToError) else type(error).__name__
            decision = MoveToError(reason, f"{self._handler.queue}: {error}")
            await self._settler.settle(lease, spans.with_attempt([buried(decision, failure, lease.lock)]))
        return decision


def counts_against_all(decision: Decision) -> bool:
    """Say whether other messages may fail for the same reason; not if the cause is this message alone."""
    is_poison = isinstance(decision, MoveToError) and decision.reason in (POISON, REJECTED)
    return not is_poison and not isinstance(decision, Discard)


def _checked(decision: Decision) -> Decision:
    if not isinstance(decision, RedeliverNow | RedeliverLater | Postpone | MoveToError | Discard):
        raise UsageError(f"recoverability returned {decision!r}, which is not a decision")
    return decision
