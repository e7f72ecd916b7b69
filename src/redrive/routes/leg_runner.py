# SPDX-License-Identifier: MIT
"""One version of a route at work: an event goes through the filters, and every part of it to the sender."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from redrive.broker import Message, Send, parents
from redrive.clock import pause
from redrive.printable import one_line
from redrive.retry import AttemptFailure, Exponential, RetryAfter
from redrive.routes.children import Child, delivery_key
from redrive.routes.destination import Destination
from redrive.routes.environment import PartEnvironment
from redrive.routes.leg_step import LegStep
from redrive.routes.outcomes import Delivered, DestinationDown, Rejected, SendFailure, SendOutcome, TryLater
from redrive.routes.parts import BrokerSender, EventFilter, LegFacts, OpenFilter, OpenSender, OutsideFilter
from redrive.routes.route import Route
from redrive.routes.spans import step_span, traced

_logger = logging.getLogger("redrive.routes")
_LONGEST_REASON = 500
_QUIET: Final = Exponential(min=0.1, max=2.0, max_attempts=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LegResult:
    """What came of one attempt.

    Attributes:
        failure: why something was not delivered; None if nothing is left to do.
        step: what failed.
        delivered: the paths of the parts that are delivered, in this attempt or before.
        effects: what is still to be sent, in the transaction that settles the leg.
        seen: the filters that reach outside, and what each has seen.
    """

    failure: SendFailure | None = None
    step: str = ""
    delivered: frozenset[str] = frozenset()
    effects: tuple[Send, ...] = ()
    seen: tuple[tuple[OpenFilter, Message], ...] = ()

    @property
    def is_consumed(self) -> bool:
        """Whether a filter has let nothing pass."""
        return self.failure is None and not self.delivered and not self.effects


OnStep = Callable[[LegStep], None]


@dataclass(slots=True)
class _Attempt:
    """One attempt to deliver an event: what is known at its beginning, and what the filters have seen."""

    leg: LegFacts
    done: frozenset[str]
    on_step: OnStep | None
    seen: list[tuple[OpenFilter, Message]] = field(default_factory=list[tuple[OpenFilter, Message]])

    def note(self, step: str, outcome: str, messages: Iterable[Message] = ()) -> None:
        if self.on_step is not None:
            self.on_step(LegStep(step, outcome, tuple(messages)))

    def result(
        self,
        delivered: Iterable[str],
        effects: Iterable[Send] = (),
        failure: SendFailure | None = None,
        step: str = "",
    ) -> LegResult:
        return LegResult(
            failure=failure, step=step, delivered=frozenset(delivered), effects=tuple(effects), seen=tuple(self.seen)
        )


class LegRunner:
    """One version of a route at work. It keeps no state of a leg: what must be kept is in what it returns.

    Args:
        route: the route.
        environment: what its parts work with.
        destination: where its sender leads.
    """

    def __init__(self, route: Route, environment: PartEnvironment, destination: Destination) -> None:
        self.route = route
        self._clock = environment.clock
        self._chance = environment.chance
        self._destination = destination
        for part in (*route.filters, route.sender):
            part.ready()
        self._filters: list[tuple[str, EventFilter | OpenFilter]] = [
            (f"filter {number} ({each.kind})", each.open(environment) if isinstance(each, OutsideFilter) else each)
            for number, each in enumerate(route.filters, start=1)
        ]
        self._step = f"sender ({route.sender.kind})"
        self._own: BrokerSender | None = route.sender if isinstance(route.sender, BrokerSender) else None
        self._sender: OpenSender | None = route.sender.open(environment) if self._own is None else None

    @property
    def is_down(self) -> bool:
        """Whether the destination is down."""
        return self._destination.is_down

    async def run(
        self, message: Message, leg: LegFacts, done: frozenset[str] = frozenset(), on_step: OnStep | None = None
    ) -> LegResult:
        """Deliver an event, except the parts that were delivered before."""
        attempt = _Attempt(leg, done, on_step)
        if self._sender is not None and self.is_down and self._destination.retry_after > 0:
            return attempt.result(done, failure=self._refused(), step=self._step)  # filters would work in vain
        children = [Child(message)]
        for step, each in self._filters:
            with step_span(step, self.route.name):
                found = await self._filtered(step, each, children, attempt)
            if not isinstance(found, list):
                attempt.note(step, found.reason)
                return attempt.result(done, failure=found, step=step)
            attempt.note(step, "passed" if found else "consumed", (child.message for child in found))
            if not found:
                return attempt.result(done)
            children = found
        return await self._deliver(children, attempt)

    async def ended(self, result: LegResult, leg: LegFacts, *, is_delivered: bool) -> None:
        """Let the filters that reach outside know that a leg was delivered, or is dead."""
        for each, message in result.seen:
            try:
                await each.ended(message, leg, is_delivered=is_delivered)
            except Exception as error:
                if not is_delivered:  # it is replayed, and the filter is asked again
                    raise
                _logger.warning("%s: a filter could not note a delivery: %s", self.route.name, _said(error))

    async def close(self) -> None:
        """Disconnect filters and sender."""
        opened: list[OpenFilter | OpenSender] = [each for _, each in self._filters if not isinstance(each, EventFilter)]
        for each in opened if self._sender is None else [*opened, self._sender]:
            try:
                await each.close()
            except Exception as error:  # noqa: BLE001 - the others are closed all the same
                _logger.warning("%s: a part could not be closed: %s", self.route.name, _said(error))

    # --- filters

    async def _filtered(
        self, step: str, each: EventFilter | OpenFilter, children: Sequence[Child], attempt: _Attempt
    ) -> list[Child] | SendFailure:
        """Return what a filter lets pass of some parts, or why that cannot be said."""
        passed: list[Child] = []
        for child in children:
            if isinstance(each, EventFilter):
                try:
                    found: Sequence[Message] | SendFailure = each.apply(child.message, attempt.leg)
                except Exception as error:  # noqa: BLE001 - whatever a pure filter raises, it would raise again
                    found = Rejected(_said(error))
            else:
                attempt.seen.append((each, child.message))
                found = await self._outside(each, child.message, attempt.leg)
            if isinstance(found, SendFailure):
                return found
            if not isinstance(found, list | tuple) or not all(isinstance(one, Message) for one in found):
                return Rejected(f"it returned {one_line(repr(found), 100)}; it must return a list of messages")
            passed += child.parts(found)
        return passed

    async def _outside(self, each: OpenFilter, message: Message, leg: LegFacts) -> Sequence[Message] | SendFailure:
        try:
            async with self._clock.timeout(self.route.settings.timeout):
                return await each.apply(message, leg)
        except Exception as error:  # noqa: BLE001 - it reaches outside: another attempt may succeed
            return self._failure(error)

    # --- the sender

    async def _deliver(self, children: Sequence[Child], attempt: _Attempt) -> LegResult:
        delivered, effects = set(attempt.done), list[Send]()
        for child in children:
            if child.path and child.path in attempt.done:
                continue
            key = delivery_key(attempt.leg.event_id, self.route.name, child.path)
            message = traced(child.message)
            if self._own is None:
                outcome = await self._send(message, key, attempt.leg.event_id)
            elif isinstance(effect := _effect(self._own, message, key, attempt.leg), Send):
                outcome = Delivered()
                effects.append(effect)
            else:
                outcome = effect
            attempt.note(self._step, getattr(outcome, "reason", "delivered"), [message])
            if not isinstance(outcome, Delivered):
                return attempt.result(delivered, failure=outcome, step=self._step)
            delivered.add(child.path)
        return attempt.result(delivered, effects)

    async def _send(self, message: Message, key: str, event_id: str) -> SendOutcome:
        """Send, and again if that may help: quietly, within one attempt."""
        outcome = await self._send_once(message, key, event_id)
        for number in range(1, self.route.settings.quiet_retries + 1):
            if not isinstance(outcome, TryLater) or outcome.after is not None or self.is_down:
                break
            answer = _QUIET.decide(AttemptFailure(number, chance=self._chance()))
            await pause(self._clock, answer.delay if isinstance(answer, RetryAfter) else 0.0)
            outcome = await self._send_once(message, key, event_id)
        return outcome

    async def _send_once(self, message: Message, key: str, event_id: str) -> SendOutcome:
        permit = self._destination.admit()
        if permit is None or self._sender is None:
            return self._refused()
        try:
            with step_span(self._step, self.route.name, key=key):
                async with self._clock.timeout(self.route.settings.timeout):
                    outcome = await self._sender.send(message, key)
        except asyncio.CancelledError:
            self._destination.release(permit)
            raise
        except Exception as error:  # noqa: BLE001 - whatever a sender raises, the event is not lost
            outcome = self._failure(error)
        if not isinstance(outcome, SendOutcome):
            outcome = TryLater(f"it returned {one_line(repr(outcome), 100)}; it must return Delivered() or why not")
        self._destination.note(permit, outcome, event_id)
        return outcome

    def _failure(self, error: Exception) -> SendFailure:
        if isinstance(error, TimeoutError) and not isinstance(error, ConnectionError):
            return TryLater(f"no answer within {self.route.settings.timeout:g} s")
        return DestinationDown(_said(error)) if isinstance(error, OSError) else TryLater(_said(error))

    def _refused(self) -> DestinationDown:
        return DestinationDown(f"{self._destination.name} is down", max(0.001, self._destination.retry_after))


def _effect(sender: BrokerSender, message: Message, key: str, leg: LegFacts) -> Send | SendFailure:
    try:
        effect = sender.effect(message, key, leg.now)
        return replace(effect, message=parents.child_of(leg.event_id, effect.message))
    except Exception as error:  # noqa: BLE001 - it is pure: whatever it raises, it would raise again
        return Rejected(_said(error))


def _said(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}", _LONGEST_REASON)
