# SPDX-License-Identifier: MIT
"""Gives the events of a source that can wait to the intake, one by one and again if need be."""

from typing import Final, Literal, TypeAlias

from redrive.broker import Message
from redrive.errors import MessageError, Unavailable
from redrive.retry import AttemptFailure, Exponential, RetryAfter
from redrive.routes.ack_tree import Ack, Nack
from redrive.routes.environment import PartEnvironment
from redrive.routes.parts import Intake
from redrive.routes.receivers.receiver_events import EventGivenUp
from redrive.routes.receivers.stop_request import StopRequest

Accepted: TypeAlias = Literal["taken", "given_up", "stopped"]
"""``taken``: the source may forget it; ``given_up``: it must not be offered again; ``stopped``: the source keeps it."""

_DELAYS: Final = Exponential(min=0.2, max=30.0, max_attempts=None)


def offer_delay(failures: int, chance: float) -> float:
    """Return the seconds until an event is offered again that was not taken.

    Args:
        failures: how often it was not.
        chance: a random number, 0 <= chance < 1.
    """
    answer = _DELAYS.decide(AttemptFailure(failures, chance=chance))
    return answer.delay if isinstance(answer, RetryAfter) else _DELAYS.max


def reasons_of(nack: Nack) -> str:
    """Return the reasons of a nack as one text."""
    return "; ".join(f"{each.leg}: {each.text}" for each in nack.reasons) or "no reason was given"


class Acceptance:
    """Gives events to an intake.

    An event that the intake cannot take now is offered again for as long as it takes, so the source is not read on. One
    that is nacked is offered again ``max_replays`` times. Then it is given up and reported.

    Args:
        intake: where events go.
        environment: what the receiver works with.
        stopping: ends the attempts.
        max_replays: how often an event that was nacked is offered again.
    """

    def __init__(self, intake: Intake, environment: PartEnvironment, stopping: StopRequest, max_replays: int) -> None:
        self._intake = intake
        self._environment = environment
        self._stopping = stopping
        self._max_replays = max_replays

    async def accept(self, message: Message) -> Accepted:
        """Have an event taken; say what became of it."""
        refusals = nacks = 0
        while not self._stopping.is_requested:
            try:
                answer = await self._intake.accept(message)
            except Unavailable:
                refusals += 1
                await self._wait(refusals)
                continue
            except MessageError as error:
                return self._give_up(message, str(error))
            if isinstance(answer, Ack):
                return "taken"
            nacks += 1
            if nacks > self._max_replays:
                return self._give_up(message, reasons_of(answer))
            await self._wait(nacks)
        return "stopped"

    async def _wait(self, failures: int) -> None:
        await self._stopping.pause(offer_delay(failures, self._environment.chance()))

    def _give_up(self, message: Message, reason: str) -> Accepted:
        place = self._environment
        place.report(EventGivenUp(place.application, place.name, message.id or "", reason))
        return "given_up"
