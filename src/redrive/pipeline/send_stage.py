# SPDX-License-Identifier: MIT
"""The send stage: the intent is stored, then the transport works with no transaction open, then the outcome is stored.

If the process dies in between, the next one finds the intent, and knows that the shipment may have arrived.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from redrive.clock import Clock, utc
from redrive.errors import TaskConflict
from redrive.pipeline.events import DestinationStopped, TaskEnded, TaskFailed
from redrive.pipeline.plan import PipelineDestination
from redrive.pipeline.process_stage import buried
from redrive.pipeline.records import DEAD_LETTER, NewAction, SendResult, SendWork, ShipmentWork
from redrive.pipeline.send_decision import decide_send, result_of
from redrive.pipeline.shipment import (
    DestinationAway,
    OutcomeUnknown,
    Shipment,
    ShipmentDelayed,
    ShipmentOutcome,
    ShipmentRefused,
    ShipmentSent,
)
from redrive.pipeline.stage import MOST_DEATHS, PipelineEnvironment, StageError, said, token_of
from redrive.pipeline.states import ShipmentState, TaskEvent
from redrive.pipeline.task_token import TaskToken, message_for
from redrive.pipeline.transport import BrokerTransport, OpenTransport, TransportEnvironment
from redrive.retry import CircuitBreaker
from redrive.tracing import span
from redrive.worker import Context, MoveToError, Postpone

_NOT_TRIED = "the destination is away"


class DestinationBreaker:
    """Whether a destination can be reached: one for each address, shared by all destinations that have it.

    Args:
        address: the address.
        clock: the clock.
        failures: after how many failures in a row it is away.
        probe_after: seconds until it is tried again.
        on_change: called when it is away, or back.
    """

    def __init__(
        self, address: str, clock: Clock, *, failures: int, probe_after: float, on_change: Callable[[bool], None]
    ) -> None:
        self._clock = clock
        self._breaker = CircuitBreaker(address, failures=failures, open_for=probe_after)
        self._on_change = on_change

    def admit(self) -> int:
        """Return a permit for one attempt.

        Raises:
            StageError: it is away; the message is delivered again when it is worth trying.
        """
        now = self._clock.monotonic()
        permit = self._breaker.admit(now)
        if permit is None:
            raise StageError(_NOT_TRIED, Postpone(max(1.0, self._breaker.retry_after(now))))
        return permit

    def note(self, permit: int, outcome: ShipmentOutcome | None) -> None:
        """Note what came of an attempt; None: it was not made."""
        now = self._clock.monotonic()
        if outcome is None:
            self._breaker.released(permit)
            return
        has_answered = isinstance(outcome, ShipmentSent | ShipmentRefused)
        change = (self._breaker.succeeded if has_answered else self._breaker.failed)(permit, now)
        if change is not None and "closed" in change:
            self._on_change(self._breaker.state != "closed")


class SendStage:
    """Handles the messages of the send queue of one destination.

    Args:
        environment: what it works with.
        destination: the destination.
        breaker: says whether it can be reached.
    """

    def __init__(
        self, environment: PipelineEnvironment, destination: PipelineDestination, breaker: DestinationBreaker
    ) -> None:
        self._environment = environment
        self._destination = destination
        self._breaker = breaker
        self._transport: OpenTransport | None = None

    async def close(self) -> None:
        """Disconnect."""
        if self._transport is not None:
            with suppress(Exception):  # nothing is lost with a connection
                await self._transport.close()

    async def handle(self, body: bytes, context: Context) -> None:
        """Make one attempt at one task."""
        environment, token = self._environment, token_of(body)
        if context.delivery_count > MOST_DEATHS:
            raise self._crash_loop(token, context)
        permit = self._breaker.admit()
        last: ShipmentOutcome | None = None
        try:
            work = await environment.ledger.begin_send(token, self._destination.rate, environment.version)
            if work is None:
                return  # out of date
            environment.check_version(work.task.version)
            if work.wait > 0:
                raise StageError("the rate of the destination", Postpone(work.wait))
            outcomes = await self._attempt(work, context)
            last = next(reversed(outcomes.values()), None)
        finally:
            self._breaker.note(permit, last)
        if isinstance(last, DestinationAway):
            raise self._away(token, work, outcomes, last)
        await self._store(token, work, outcomes, context)

    # --- the attempt

    async def _attempt(self, work: SendWork, context: Context) -> dict[int, ShipmentOutcome]:
        """Send what is left of a task, one shipment after another; stop if the destination is away."""
        outcomes: dict[int, ShipmentOutcome] = {}
        for each in work.shipments:
            outcomes[each.info.index] = outcome = await self._send(self._shipment(work, each), each, context)
            if isinstance(outcome, DestinationAway):
                break
        return outcomes

    def _shipment(self, work: SendWork, each: ShipmentWork) -> Shipment:
        task = work.task
        return Shipment(
            delivery_id=each.info.delivery_id,
            pipeline=task.pipeline,
            destination=task.destination,
            task=task.id,
            index=each.info.index,
            item_count=each.info.item_count,
            body=each.body,
            content_type=each.info.content_type,
            slot_at=None if task.slot_at is None else task.slot_at.timestamp(),
            attempt=each.info.attempt + 1,
        )

    async def _send(self, shipment: Shipment, each: ShipmentWork, context: Context) -> ShipmentOutcome:
        transport = self._destination.transport
        if isinstance(transport, BrokerTransport):
            effect = transport.effect(shipment)
            context.send(effect.queue, effect.message, at=effect.at)
            return ShipmentSent("in this broker")
        try:
            opened = self._opened()
        except Exception as error:  # noqa: BLE001 - a transport of another package may raise anything
            return DestinationAway(said(error))
        try:
            if each.may_be_there and (found := await self._found(opened, shipment)) is not None:
                return found
            facts = {"redrive.destination": shipment.destination, "messaging.message.id": shipment.delivery_id}
            with span(f"ship {shipment.destination}", facts, kind="CLIENT"):
                return await opened.send(shipment)
        except Exception as error:  # noqa: BLE001 - as above; how far it had come is unknown
            return OutcomeUnknown(said(error))

    async def _found(self, transport: OpenTransport, shipment: Shipment) -> ShipmentOutcome | None:
        """Return what is known of a shipment that may have arrived; None: it may be sent."""
        if self._destination.on_unknown == "resend":
            return None
        if self._destination.on_unknown == "park":
            return OutcomeUnknown("an attempt to send it has begun, and the process has died")
        found = await transport.probe(shipment)
        return None if isinstance(found, ShipmentDelayed) else found

    def _opened(self) -> OpenTransport:
        if self._transport is None:
            environment = TransportEnvironment(self._environment.broker, self._environment.clock)
            self._transport = self._destination.transport.open(environment)
        return self._transport

    # --- what follows

    async def _store(
        self, token: TaskToken, work: SendWork, outcomes: dict[int, ShipmentOutcome], context: Context
    ) -> None:
        environment = self._environment
        result = decide_send(
            token,
            outcomes,
            work.others,
            self._destination.policy,
            now=environment.clock.time(),
            chance=environment.chance(),
            doubted=self._doubted(work, outcomes),
        )
        if result.event is TaskEvent.FAIL:
            detail = {**result.action.detail, DEAD_LETTER: context.sequence}
            result = replace(result, action=replace(result.action, detail=detail))
        inside = environment.ledger.finish_send(token, result, work.task.pipeline, work.task.destination)
        if result.event is TaskEvent.FAIL:
            self._report(work, result)
            decision = MoveToError("SendFailed", result.action.reason, inside=inside)
            raise StageError(result.action.reason, decision, is_reported=True)
        if result.retry is not None and result.due_at is not None:
            queue = environment.plan.send_queue(self._destination.name)
            context.send(queue, message_for(result.retry), at=utc(result.due_at))
        context.make_room()
        try:
            await context.complete(inside=inside)
        except TaskConflict:
            return  # a person has let it begin anew meanwhile, or another process has taken it over
        self._report(work, result)

    def _doubted(self, work: SendWork, outcomes: dict[int, ShipmentOutcome]) -> set[int]:
        """Return the shipments of which an earlier attempt may have arrived, and was not looked for."""
        looks = self._destination.on_unknown == "probe"
        return {
            each.info.index
            for each in work.shipments
            if each.may_be_there and not (looks and each.info.index in outcomes)
        }

    def _report(self, work: SendWork, result: SendResult) -> None:
        environment, names = self._environment, (work.task.pipeline, work.task.id, "send", work.task.destination)
        if result.event is TaskEvent.FINISH:
            environment.report(TaskEnded(*names, result.action.name))
            return
        delay = None if result.due_at is None else max(0.0, result.due_at - environment.clock.time())
        environment.report(TaskFailed(*names, result.action.name, result.action.reason, delay))

    def _away(
        self, token: TaskToken, work: SendWork, outcomes: dict[int, ShipmentOutcome], away: DestinationAway
    ) -> StageError:
        """Return the error that puts a task back: that its destination is away is not its fault, and counts nothing."""
        environment = self._environment
        doubted, not_tried = self._doubted(work, outcomes), DestinationAway(_NOT_TRIED)
        tried = [(each, each.info.index, outcomes.get(each.info.index, not_tried)) for each in work.shipments]
        results = [result_of(index, outcome, is_doubted=index in doubted) for _, index, outcome in tried]
        is_news = any(
            result.state not in (ShipmentState.PENDING, each.info.state)
            for (each, _, _), result in zip(tried, results, strict=True)
        )
        action = NewAction(name="send_parked", attempt=token.retries + 1, reason=away.reason) if is_news else None
        delay = max(away.after or 0.0, min(self._destination.probe_after, 5.0))
        names = (work.task.pipeline, work.task.id, "send", work.task.destination)
        environment.report(TaskFailed(*names, "send_parked", away.reason, delay))
        inside = environment.ledger.put_back(token, results, action)
        return StageError(away.reason, Postpone(delay, inside=inside), is_reported=True)

    def _crash_loop(self, token: TaskToken, context: Context) -> StageError:
        environment = self._environment
        reason = f"{context.delivery_count - 1} processes have died at it"
        detail: dict[str, object] = {DEAD_LETTER: context.sequence}
        action = NewAction(name="send_error", attempt=token.retries + 1, reason=reason, detail=detail)
        names = (environment.plan.name, token.task, "send", self._destination.name)
        environment.report(TaskFailed(*names, action.name, reason, None))
        return StageError(reason, buried(environment, token, reason, "CrashLoop", action), is_reported=True)


def breaker_of(environment: PipelineEnvironment, destination: PipelineDestination) -> DestinationBreaker:
    """Return a breaker for a destination's address."""

    def on_change(is_away: bool) -> None:  # noqa: FBT001 - a callback's argument
        state = "away" if is_away else "back"
        environment.report(DestinationStopped(environment.plan.name, destination.name, state, ""))

    return DestinationBreaker(
        destination.transport.address,
        environment.clock,
        failures=destination.breaker_failures,
        probe_after=destination.probe_after,
        on_change=on_change,
    )
