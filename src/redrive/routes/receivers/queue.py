# SPDX-License-Identifier: MIT
"""A receiver that reads a queue of this broker.

A worker receives the messages: it renews their locks, and goes on when the store is back. With ``durable`` delivery,
an event is stored in the transaction that completes its message, so it is neither lost nor stored twice in a crash.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import ClassVar, Final

from redrive.broker import Send, WholeSetting, rules, source_queue
from redrive.errors import MessageError, Unavailable
from redrive.retry import Exponential
from redrive.routes.ack_tree import Nack
from redrive.routes.environment import PartEnvironment
from redrive.routes.parts import EventReceiver, Intake, TextSetting, setting
from redrive.routes.receivers.acceptance import offer_delay, reasons_of
from redrive.routes.receivers.stop_request import StopRequest, run_until_cancelled
from redrive.worker import (
    Context,
    Decision,
    HandlerFailure,
    MoveToError,
    Postpone,
    Recoverability,
    Worker,
    decide,
)

NACKED: Final = "Nacked"
"""Why a message is a dead letter whose event was not delivered on every route."""

_LONGEST_HOLD_S: Final = 86_400.0
"""How long a message is kept locked while its event is on its way; after that it is delivered again."""

_AGAIN_S: Final = 1.0
"""How long a message waits that was given back because the receiver ended before the intake could take it."""


@dataclass(frozen=True, slots=True)
class QueueReceiver(EventReceiver):
    """Reads a queue of this broker: each message is an event, with the message's id, properties and headers."""

    kind: ClassVar[str] = "queue"

    queue: str = setting(TextSetting("must be the name of a queue"), "the queue to read")
    concurrency: int = setting(WholeSetting(1, 1_000), "how many messages are held at a time", 16)

    @property
    def address(self) -> str:
        """The queue."""
        return self.queue

    @property
    def reads(self) -> str | None:
        """The queue."""
        return self.queue

    def check(self) -> None:
        """See that a queue can have that name."""
        EventReceiver.check(self)
        rules.check_queue_name(source_queue(self.queue))

    def open(self, environment: PartEnvironment) -> "OpenQueueReceiver":
        """Return the receiver at work."""
        return OpenQueueReceiver(self, environment)


class EventNacked(Exception):
    """An event was not delivered on every route, so its source keeps it."""


class OpenQueueReceiver:
    """A queue receiver at work."""

    def __init__(self, settings: QueueReceiver, environment: PartEnvironment) -> None:
        self._settings = settings
        self._environment = environment

    async def run(self, intake: Intake) -> None:
        """Receive messages until cancelled.

        Raises:
            QueueNotFound: the queue is not declared.
        """
        place = self._environment
        stopping = StopRequest(place.clock)
        worker = Worker(place.name, chance=place.chance)

        def stop() -> None:
            stopping.request()
            worker.stop()

        @worker.handler(
            self._settings.queue,
            concurrency=self._settings.concurrency,
            max_lock_renewal=_LONGEST_HOLD_S,
            recoverability=replay_policy(self._settings.max_replays).decide,
        )
        async def take(_body: bytes, context: Context) -> None:
            await self._take(intake, context, stopping)

        await run_until_cancelled(worker.run(place.broker), stop)

    async def _take(self, intake: Intake, context: Context, stopping: StopRequest) -> None:
        """Give a message to the intake. While that takes nothing, the message stays locked, and no others are received.

        If it is taken and not settled, the worker completes it.
        """

        async def settle(sends: Sequence[Send]) -> None:
            for each in sends:
                context.send(each.queue, each.message, at=each.at)
            await context.complete()

        for failures in count(1):
            try:
                answer = await intake.accept(context.message, settle=settle)
            except Unavailable:
                await stopping.pause(offer_delay(failures, self._environment.chance()))
                if stopping.is_requested:
                    raise
                continue
            if isinstance(answer, Nack):
                raise EventNacked(reasons_of(answer))
            return


@dataclass(frozen=True, slots=True)
class ReplayPolicy:
    """What becomes of a message whose event was not taken.

    Attributes:
        usual: for a nack, and for anything unexpected: later, and in the end the dead-letter queue.
    """

    usual: Recoverability

    def decide(self, failure: HandlerFailure) -> Decision:
        """Return what to do. That the intake takes nothing for now does not count against the message."""
        if isinstance(failure.error, Unavailable):
            return Postpone(_AGAIN_S)
        decision = decide(failure, self.usual)
        if isinstance(decision, MoveToError) and isinstance(failure.error, EventNacked):
            return replace(decision, reason=NACKED)
        return decision


def replay_policy(max_replays: int) -> ReplayPolicy:
    """Return the policy with so many replays of an event."""
    delays = Exponential(min=1.0, max=600.0, max_attempts=max_replays + 1)
    return ReplayPolicy(Recoverability(immediate=0, delayed=delays, poison=(MessageError,)))
