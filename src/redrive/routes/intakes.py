# SPDX-License-Identifier: MIT
"""Where receivers put their events: one intake for each way of delivery.

============  ==================================  =================================  ===========================
delivery      the source may forget an event      a leg that fails                   after a crash
============  ==================================  =================================  ===========================
``durable``   when it is stored                   is replayed alone, then dead       the legs are still stored
``linked``    when every route has it             is dead, or the event is nacked    the source delivers it again
``direct``    when it is received                 is counted as lost                 what was on its way is lost
============  ==================================  =================================  ===========================
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from redrive.broker import Broker, Message, Send, random_id
from redrive.broker.headers import ROUTE_EXHAUSTED
from redrive.errors import ReceiverFull, Unavailable
from redrive.routes.ack_tree import Ack, AckTree, Answer, Leg, LegState
from redrive.routes.environment import PartEnvironment
from redrive.routes.event_values import plain_bytes, value_at
from redrive.routes.events import EventTaken, LegDelivered, LegFailed
from redrive.routes.leg_runner import LegResult, LegRunner
from redrive.routes.leg_step import Follow, LegStep
from redrive.routes.outcomes import Rejected, SendFailure
from redrive.routes.parts import LegFacts, Settle
from redrive.routes.plan import ReceiverPlan, leg_queue
from redrive.routes.spans import leg_span

_ONE_ORDER: Final = "all"
"""The session of all events of a receiver whose order is strict."""

_LOOK_EVERY_S: Final = 1.0
"""How often it is asked how many events wait."""


class DurableIntake:
    """Stores events: a topic gives each route its own message, in the transaction that takes the event over.

    Args:
        plan: the receiver and its routes.
        environment: what it works with.
    """

    def __init__(self, plan: ReceiverPlan, environment: PartEnvironment) -> None:
        self._plan = plan
        self._environment = environment
        self._looked_at = float("-inf")
        self._is_full = False

    def update(self, plan: ReceiverPlan) -> None:
        """Take other routes of the same receiver."""
        self._plan = plan

    async def accept(self, message: Message, *, settle: Settle | None = None) -> Answer:
        """Store an event."""
        await self._check_room()
        event = Send(self._plan.topic, self._ordered(_named(message)))
        if settle is not None:
            await settle([event])
        else:
            await self._environment.broker.apply(event)
        return Ack()

    def _ordered(self, message: Message) -> Message:
        if (path := self._plan.receiver.order_key) is not None:
            key = value_at(message, path)
            return replace(message, session_id=None if key is None else plain_bytes(key).decode(errors="replace")[:200])
        if self._plan.is_ordered:
            return replace(message, session_id=_ONE_ORDER)
        return message

    async def _check_room(self) -> None:
        most = self._plan.receiver.max_waiting
        if most is None:
            return
        now = self._environment.clock.monotonic()
        if now >= self._looked_at + _LOOK_EVERY_S:
            self._looked_at = now
            queues = [await self._environment.broker.inspect(leg_queue(route)) for route in self._plan.routes]
            self._is_full = any(queue.ready + queue.scheduled + queue.locked >= most for queue in queues)
        if self._is_full:
            raise ReceiverFull(self._plan.name, most)


class MemoryLegs:
    """Legs that are not stored: what ``linked`` and ``direct`` delivery share.

    Args:
        environment: what they work with.
        follow: sends what happens to a leg to people who follow its route.
    """

    def __init__(self, environment: PartEnvironment, follow: Follow) -> None:
        self._environment = environment
        self._follow = follow

    async def run(self, runner: LegRunner, message: Message) -> LegResult:
        """Deliver an event on one route, and report what came of it."""
        route, now = runner.route, self._environment.clock.time()
        leg = LegFacts(route.application, route.name, message.id or "", now, now)
        with leg_span(route.name, leg.event_id, message.headers):
            following, steps = self._follow(route.application, route.name), list[LegStep]()
            result = await runner.run(message, leg, on_step=None if following is None else steps.append)
            if following is not None:
                await following(leg.event_id, steps)
            if result.effects:
                await self._environment.broker.apply(*result.effects)
        await runner.ended(result, leg, is_delivered=result.failure is None)
        if result.failure is None:
            outcome = "consumed" if result.is_consumed else "delivered"
            age = max(0.0, self._environment.clock.time() - now)
            self._environment.report(
                LegDelivered(route.application, route.name, leg.event_id, outcome, 1, len(result.delivered), age)
            )
        else:
            self._report_failed(runner, leg, result, result.failure)
        return result

    def _report_failed(self, runner: LegRunner, leg: LegFacts, result: LegResult, failure: SendFailure) -> None:
        outcome = {"dead_letter": "dead", "nack": "nacked", "discard": "discarded"}[on_failure(runner, failure)]
        self._environment.report(
            LegFailed(leg.application, leg.route, leg.event_id, 1, result.step, failure.reason, outcome, None)
        )


class LinkedIntake:
    """Holds an event until every route has it; the source gets the answer of the ack tree.

    Args:
        plan: the receiver and its routes.
        environment: what it works with.
        runners: the routes at work, by their names; it changes while the receiver runs.
    """

    def __init__(self, plan: ReceiverPlan, environment: PartEnvironment, runners: "Runners") -> None:
        self._plan = plan
        self._environment = environment
        self._legs = MemoryLegs(environment, runners.follow)
        self._runners = runners

    def update(self, plan: ReceiverPlan) -> None:
        """Take other routes of the same receiver."""
        self._plan = plan

    async def accept(self, message: Message, *, settle: Settle | None = None) -> Answer:
        """Deliver an event on every route."""
        event = _named(message)
        running = self._runners.of(self._plan)
        if missing := {route.name for route in self._plan.routes} - {each.route.name for each in running}:
            raise Unavailable(f"route {min(missing)!r} does not run now; try again later")
        answer = await self._deliver(event, running)
        if isinstance(answer, Ack) and settle is not None:
            await settle(())
        return answer

    async def _deliver(self, event: Message, runners: Sequence[LegRunner]) -> Answer:
        tree = AckTree([each.route.name for each in runners], on_nack=self._plan.receiver.on_nack)
        tasks = {
            tree.legs[each.route.name]: asyncio.create_task(self._run(tree, tree.legs[each.route.name], each, event))
            for each in runners
        }
        try:
            while tree.answer is None:
                await asyncio.wait(
                    [task for task in tasks.values() if not task.done()], return_when=asyncio.FIRST_COMPLETED
                )
                for task in tasks.values():
                    if task.done() and not task.cancelled():
                        task.result()
            return tree.answer
        finally:
            await _cancelled(task for leg, task in tasks.items() if leg.state is not LegState.ACKED)

    async def _run(self, tree: AckTree, leg: Leg, runner: LegRunner, event: Message) -> None:
        result = await self._legs.run(runner, event)
        if result.failure is None:
            tree.ack(leg)
        elif on_failure(runner, result.failure) == "nack":
            tree.nack(leg, f"{result.step}: {result.failure.reason}")
        else:
            if on_failure(runner, result.failure) == "dead_letter":
                await bury(self._environment.broker, runner, event, result)
            tree.ack(leg)


class DirectIntake:
    """Acknowledges an event when it is received, and delivers it from memory: at most so many at a time.

    Args:
        plan: the receiver and its routes.
        environment: what it works with.
        runners: the routes at work, by their names; it changes while the receiver runs.
    """

    def __init__(self, plan: ReceiverPlan, environment: PartEnvironment, runners: "Runners") -> None:
        self._plan = plan
        self._legs = MemoryLegs(environment, runners.follow)
        self._runners = runners
        self._running: dict[str, set[asyncio.Task[LegResult]]] = {}

    def update(self, plan: ReceiverPlan) -> None:
        """Take other routes of the same receiver."""
        self._plan = plan

    async def accept(self, message: Message, *, settle: Settle | None = None) -> Answer:
        """Begin to deliver an event on every route."""
        event, runners = _named(message), self._runners.of(self._plan)
        for each in runners:
            most = each.route.settings.concurrency
            if len(self._running.setdefault(each.route.name, set())) >= most:
                raise ReceiverFull(self._plan.name, most)
        if settle is not None:
            await settle(())
        for each in runners:
            running = self._running[each.route.name]
            task = asyncio.create_task(self._legs.run(each, event))
            running.add(task)
            task.add_done_callback(running.discard)
        return Ack()

    async def finished(self) -> None:
        """Wait until everything that was received is delivered or lost."""
        while tasks := [task for running in self._running.values() for task in running]:
            await asyncio.wait(tasks)


@dataclass(slots=True)
class Runners:
    """The routes at work in this process.

    Attributes:
        follow: sends what happens to a leg to people who follow its route, given by application and name.
        by_name: the routes, by application and name.
    """

    follow: Follow
    by_name: dict[tuple[str, str], LegRunner] = field(default_factory=dict[tuple[str, str], LegRunner])

    def of(self, plan: ReceiverPlan) -> list[LegRunner]:
        """Return those of a receiver. A route that is paused, or cannot run, has none."""
        found = (self.by_name.get((plan.application, route.name)) for route in plan.routes)
        return [each for each in found if each is not None]


class ReportingIntake:
    """Reports what another intake takes.

    Args:
        inner: the intake.
        plan: the receiver and its routes.
        environment: what it works with.
    """

    def __init__(
        self, inner: "DurableIntake | LinkedIntake | DirectIntake", plan: ReceiverPlan, environment: PartEnvironment
    ) -> None:
        self.inner = inner
        self._names = (plan.application, plan.name)
        self._report = environment.report

    async def accept(self, message: Message, *, settle: Settle | None = None) -> Answer:
        """Take an event."""
        event = _named(message)
        try:
            answer = await self.inner.accept(event, settle=settle)
        except Exception as error:
            self._report(EventTaken(*self._names, event.id or "", "refused", str(error)))
            raise
        if isinstance(answer, Ack):
            self._report(EventTaken(*self._names, event.id or "", "acked"))
        else:
            reasons = "; ".join(f"{reason.leg}: {reason.text}" for reason in answer.reasons)
            self._report(EventTaken(*self._names, event.id or "", "nacked", reasons))
        return answer


def on_failure(runner: LegRunner, failure: SendFailure) -> str:
    """Return what becomes of a leg that is not stored; a permanent failure is never nacked: no replay repairs it."""
    chosen = runner.route.on_exhausted
    return "dead_letter" if chosen == "nack" and isinstance(failure, Rejected) else chosen


async def bury(broker: Broker, runner: LegRunner, event: Message, result: LegResult) -> None:
    """Store a leg that failed in its route's own queue, from where it is moved to the dead letters at once."""
    why = "" if result.failure is None else f"{result.step}: {result.failure.reason}"
    headers = {**event.headers, ROUTE_EXHAUSTED: why}
    await broker.apply(Send(leg_queue(runner.route), replace(event, headers=headers), even_if_seen=True))


def _named(message: Message) -> Message:
    return message if message.id is not None else message.with_id(random_id())


async def _cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    listed = [task for task in tasks if not task.done()]
    for task in listed:
        task.cancel()
    if listed:
        await asyncio.wait(listed)
