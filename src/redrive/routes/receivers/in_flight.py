# SPDX-License-Identifier: MIT
"""The events that a receiver has given to its intake, for sources that deliver several at a time.

While the intake is unavailable, events that were read are kept here, and no more are read. They are not given back to
the source: it would count that as a delivery, and an outage must not use up the replays of an event.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Literal, TypeAlias

from redrive.broker import Message
from redrive.clock import pause
from redrive.errors import MessageError, Unavailable
from redrive.printable import class_name, one_line
from redrive.routes.ack_tree import Ack, Answer
from redrive.routes.environment import PartEnvironment
from redrive.routes.parts import Intake
from redrive.routes.receivers.acceptance import offer_delay, reasons_of
from redrive.routes.receivers.source_events import EventSetAside, SourceBack, SourceLost

_SWALLOWED_S: Final = 0.2
"""After how many seconds a task that was cancelled is cancelled again."""


class SourceWatch:
    """Waits after failures of a source, longer each time, and reports when it is lost and when it is back.

    Args:
        environment: what the receiver works with.
        hide: removes what is secret from a text.
    """

    def __init__(self, environment: PartEnvironment, hide: Callable[[str], str]) -> None:
        self._environment = environment
        self._who = (environment.application, environment.name)
        self._hide = hide
        self._failures = 0

    async def failed(self, error: BaseException) -> None:
        """Report a failure and wait."""
        self._failures += 1
        delay = offer_delay(self._failures, self._environment.chance())
        self.note(error, delay)
        await pause(self._environment.clock, delay)

    def note(self, error: BaseException, delay: float = 0.0) -> None:
        """Report a failure."""
        problem = one_line(self._hide(f"{class_name(type(error))}: {error}"), 300)
        self._environment.report(SourceLost(*self._who, problem, delay))

    def works(self) -> None:
        """Note that the source has answered."""
        if self._failures:
            self._failures = 0
            self._environment.report(SourceBack(*self._who))

    def set_aside(self, event_id: str, place: str, reason: str) -> None:
        """Report that an event is dead at its source."""
        self._environment.report(EventSetAside(*self._who, event_id, place, reason))


async def end_tasks(*tasks: "asyncio.Task[None]") -> None:
    """Cancel tasks and wait for their end.

    Again and again: until Python 3.12 ``asyncio.wait_for``, which libraries use, may swallow a cancellation.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_SWALLOWED_S)


VerdictAction: TypeAlias = Literal["forget", "replay", "set_aside", "keep"]
"""``forget``: the intake has it; ``replay``: deliver it again; ``set_aside``: never again; ``keep``: not asked."""


@dataclass(frozen=True, slots=True)
class SourceVerdict:
    """What to do about an event at its source.

    Attributes:
        action: what.
        reason: why, for people.
    """

    action: VerdictAction
    reason: str = ""


class InFlight:
    """The events that are with the intake, each with a task of its own, by names that the source has for them.

    Args:
        intake: where the events go.
        environment: what the receiver works with.
        most: how many events there may be at a time.

    Attributes:
        is_ending: whether nothing more is begun.
        is_over: whether all that was begun has ended.
    """

    def __init__(self, intake: Intake, environment: PartEnvironment, most: int) -> None:
        self._intake = intake
        self._clock = environment.clock
        self._chance = environment.chance
        self._most = most
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._open = asyncio.Event()
        self._open.set()
        self.is_ending = False
        self.is_over = False

    def __contains__(self, name: object) -> bool:
        return name in self._tasks

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._tasks))

    async def room(self) -> int:
        """Wait until more events may be read; return how many. 0: it is the end."""
        while not self.is_ending and (not self._open.is_set() or len(self._tasks) >= self._most):
            self._changed.clear()
            await self._changed.wait()
        return 0 if self.is_ending else self._most - len(self._tasks)

    def begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Begin with an event."""
        task = self._tasks[name] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda _: self._ended(name))

    async def accept(self, make: Callable[[], Message]) -> SourceVerdict:
        """Give an event to the intake, again and again while that is unavailable; return what to do at the source.

        Args:
            make: makes the event of what the source has delivered.
        """
        for n in count(1):
            try:
                answer = await self._intake.accept(make())
            except Unavailable:
                if not await self._reopened(offer_delay(n, self._chance())):
                    break
                continue
            except MessageError as error:
                verdict = SourceVerdict("set_aside", str(error))
            except Exception as error:  # noqa: BLE001 - whatever it is, the other events go on
                verdict = SourceVerdict("replay", f"{class_name(type(error))}: {error}")
            else:
                verdict = _verdict_on(answer)
            self._open.set()
            self._changed.set()
            return verdict
        return SourceVerdict("keep")

    async def read(self, reading: Coroutine[Any, Any, None]) -> None:
        """Run what reads the source, until this is cancelled; then finish what has begun."""
        task = asyncio.get_running_loop().create_task(reading)
        try:
            await asyncio.wait({task})
            task.result()
        finally:
            self.is_ending = True  # a task that swallows its cancellation ends by this
            self._changed.set()
            try:
                await end_tasks(task)
                self._open.set()
                while self._tasks:
                    await asyncio.wait(self._tasks.values())
            finally:  # there is nothing left to end, unless this was cancelled again
                self.is_over = True
                await end_tasks(*self._tasks.values())

    async def _reopened(self, seconds: float) -> bool:
        """Wait until the intake works again or it is time to ask; return False if it is the end."""
        if not self.is_ending:
            self._open.clear()
            try:
                async with self._clock.timeout(seconds):
                    await self._open.wait()
            except TimeoutError:
                pass
        return not self.is_ending

    def _ended(self, name: str) -> None:
        del self._tasks[name]
        self._changed.set()


def _verdict_on(answer: Answer) -> SourceVerdict:
    if isinstance(answer, Ack):
        return SourceVerdict("forget")
    return SourceVerdict("replay", reasons_of(answer))
