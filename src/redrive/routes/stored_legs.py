# SPDX-License-Identifier: MIT
"""Legs that are stored: a worker takes them from their queue, and what fails is replayed, parked or buried there."""

from collections.abc import Callable

from redrive.broker import Headers, Message
from redrive.broker.headers import ROUTE_DELIVERED, ROUTE_EXHAUSTED
from redrive.errors import MessageError, QueueNotFound, SessionRequired, Unavailable
from redrive.printable import one_line
from redrive.routes.children import delivered_before, delivered_header
from redrive.routes.environment import PartEnvironment
from redrive.routes.events import LegDelivered, LegFailed
from redrive.routes.leg_decision import EXHAUSTED, Bury, LegDecision, Park, Replay, decide_leg
from redrive.routes.leg_runner import LegResult, LegRunner
from redrive.routes.leg_step import Follower, LegStep
from redrive.routes.outcomes import DestinationDown, Rejected, SendFailure, TryLater
from redrive.routes.parts import LegFacts
from redrive.routes.spans import leg_span
from redrive.routes.suspects import AWAY_S, Suspects
from redrive.worker import (
    Context,
    Decision,
    Discard,
    HandlerFailure,
    MoveToError,
    Postpone,
    RedeliverLater,
    SlowDown,
    Worker,
)
from redrive.worker.recoverability import REJECTED

_GRACE_S = 30.0
_AWAY = Postpone(AWAY_S)


class LegError(Exception):
    """An event was not delivered on a route; ``decision`` says what becomes of the leg."""

    def __init__(self, step: str, reason: str, decision: Decision) -> None:
        super().__init__(step, reason)
        self.step = step
        self.reason = reason
        self.decision = decision

    def __str__(self) -> str:
        return f"{self.step}: {self.reason}"


class StoredLegs:
    """The legs of one version of a route, in one queue.

    Args:
        runner: the version of the route.
        environment: what it works with.
        suspects: those of this process, of all routes.
        on_dead: called when a leg is dead.
        follow: sends what happens to a leg to people who follow the route; None: there are none now.
    """

    def __init__(
        self,
        runner: LegRunner,
        environment: PartEnvironment,
        *,
        suspects: Suspects,
        on_dead: Callable[[str], None],
        follow: Callable[[], Follower | None],
    ) -> None:
        self._runner = runner
        self._route = runner.route
        self._environment = environment
        self._suspects = suspects
        self._on_dead = on_dead
        self._follow = follow

    def worker(self, queue: str) -> Worker:
        """Return the worker that delivers the legs in a queue."""
        settings = self._route.settings
        worker = Worker(f"route {self._route.name}", grace=_GRACE_S, chance=self._environment.chance)
        slow_down = SlowDown(
            after=settings.breaker_failures, first=min(1.0, settings.probe_after), longest=settings.probe_after
        )
        worker.handler(
            queue,
            concurrency=settings.concurrency,
            recoverability=self._decide,
            slow_down=slow_down,
            max_lock_renewal=duration_of_an_attempt(self._runner),
        )(self._handle)
        return worker

    async def _handle(self, body: bytes, context: Context) -> None:
        message, now = context.message, self._environment.clock.time()
        leg = LegFacts(
            application=self._route.application,
            route=self._route.name,
            event_id=message.id or "",
            accepted_at=context.enqueued_at.timestamp(),
            now=now,
            attempt=context.attempt,
        )
        if isinstance(why := message.headers.get(ROUTE_EXHAUSTED), str):
            moved = MoveToError(EXHAUSTED, why, headers={ROUTE_EXHAUSTED: None})
            raise LegError("delivery", why, moved)
        if self._suspects.must_wait(context.delivery_count):
            raise LegError("delivery", "it was on its way when processes died, and others are tried first", _AWAY)
        with leg_span(self._route.name, leg.event_id, message.headers):
            async with self._suspects.trying(context.delivery_count):
                result = await self._run(message, leg)
        if result.failure is not None:
            raise await self._failed(result, result.failure, leg)
        await self._runner.ended(result, leg, is_delivered=True)
        for effect in result.effects:
            context.send(effect.queue, effect.message, at=effect.at)
        self._report_delivered(result, leg)

    async def _run(self, message: Message, leg: LegFacts) -> LegResult:
        following, steps = self._follow(), list[LegStep]()
        on_step = None if following is None else steps.append
        event = without_marks(message)
        result = await self._runner.run(event, leg, delivered_before(message.headers), on_step)
        if following is not None:
            await following(leg.event_id, steps)
        return result

    async def _failed(self, result: LegResult, failure: SendFailure, leg: LegFacts) -> LegError:
        decision = decide_leg(
            failure,
            self._route.settings,
            attempt=leg.attempt,
            age=leg.now - leg.accepted_at,
            is_down=self._runner.is_down,
            chance=self._environment.chance(),
        )
        if isinstance(decision, Bury):
            await self._runner.ended(result, leg, is_delivered=False)
        made = self._worker_decision(decision, delivered_header(result.delivered))
        self._report_failed(made, leg.event_id, leg.attempt, result.step, failure.reason)
        return LegError(result.step, failure.reason, made)

    def _worker_decision(self, decision: LegDecision, headers: Headers) -> Decision:
        match decision:
            case Replay(delay):
                return RedeliverLater(delay, headers)
            case Park(delay):
                return Postpone(delay, headers)
            case Bury(is_exhausted=True) if self._route.on_exhausted == "discard":
                return Discard()
            case Bury(is_exhausted, description):
                return MoveToError(EXHAUSTED if is_exhausted else REJECTED, description, headers=headers)

    def _decide(self, failure: HandlerFailure) -> Decision:
        """Return what becomes of a leg; if that is no failure of a part, it could not be settled."""
        if isinstance(failure.error, LegError):
            return failure.error.decision
        found = settling_failure(failure.error)
        decision = decide_leg(
            found, self._route.settings, attempt=failure.attempt, age=0.0, is_down=False, chance=failure.chance
        )
        made = self._worker_decision(decision, {})
        self._report_failed(made, failure.message.id or "", failure.attempt, "settling", found.reason)
        return made

    def _report_failed(self, decision: Decision, event_id: str, attempt: int, step: str, reason: str) -> None:
        outcome, delay = _outcome_of(decision)
        names = self._route.application, self._route.name
        self._environment.report(LegFailed(*names, event_id, attempt, step, reason, outcome, delay))
        if outcome == "dead":
            self._on_dead(reason)

    def _report_delivered(self, result: LegResult, leg: LegFacts) -> None:
        outcome = "consumed" if result.is_consumed else "delivered"
        age = max(0.0, self._environment.clock.time() - leg.accepted_at)
        self._environment.report(
            LegDelivered(leg.application, leg.route, leg.event_id, outcome, leg.attempt, len(result.delivered), age)
        )


def settling_failure(error: Exception) -> SendFailure:
    """Return why a leg could not be settled, or what it sends to this broker could not be sent."""
    if isinstance(error, MessageError | SessionRequired):
        return Rejected(str(error))
    if isinstance(error, Unavailable | QueueNotFound):  # no message can be sent there
        return DestinationDown(str(error))
    return TryLater(one_line(f"{type(error).__name__}: {error}", 500))


def without_marks(message: Message) -> Message:
    """Return an event without the headers that its leg was given: filters and senders see it as it came."""
    if ROUTE_DELIVERED not in message.headers:
        return message
    kept = {name: value for name, value in message.headers.items() if name != ROUTE_DELIVERED}
    return message.relabelled(kept)


def duration_of_an_attempt(runner: LegRunner) -> float:
    """Return how long a lock is renewed at most: a split event may have thousands of parts."""
    return max(300.0, runner.route.settings.timeout * 100)


def _outcome_of(decision: Decision) -> tuple[str, float | None]:
    match decision:
        case RedeliverLater(delay):
            return "replay", delay
        case Postpone(delay):
            return "parked", delay
        case MoveToError():
            return "dead", None
        case _:
            return "discarded", None
