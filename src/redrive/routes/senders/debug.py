# SPDX-License-Identifier: MIT
"""A sender that keeps events in memory and fails when a test says so: for tests of routes.

What it keeps belongs to the process, by name, because a route is opened by its service and not by the test. Each test
should use a name of its own, or call ``DebugSender.reset(name)``.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final

from redrive.broker import Message
from redrive.routes.environment import PartEnvironment
from redrive.routes.outcomes import Delivered, SendOutcome
from redrive.routes.parts import EventSender, OpenSender, TextSetting, setting

MOST_KEPT: Final = 10_000
"""How many attempts are kept for each name; older ones are forgotten."""


@dataclass(frozen=True, slots=True)
class DebugAttempt:
    """One call of a debug sender.

    Attributes:
        key: names the delivery.
        message: the event.
        outcome: what it said, or what it raised.
    """

    key: str
    message: Message
    outcome: SendOutcome | Exception


@dataclass(slots=True)
class _Kept:
    attempts: deque[DebugAttempt] = field(default_factory=lambda: deque[DebugAttempt](maxlen=MOST_KEPT))
    script: deque[SendOutcome | Exception] = field(default_factory=deque[SendOutcome | Exception])


_kept: dict[str, _Kept] = {}


def _of(name: str) -> _Kept:
    return _kept.setdefault(name, _Kept())


@dataclass(frozen=True, slots=True)
class DebugSender(EventSender):
    """Keeps events in memory instead of sending them, for tests of routes.

    It delivers everything, unless a test says what the next calls shall do::

        DebugSender.script("billing", [TryLater("busy"), ConnectionRefusedError()])  # then it delivers again
        [attempt.key for attempt in DebugSender.delivered("billing")]
    """

    kind: ClassVar[str] = "debug"

    name: str = setting(TextSetting(), "where the events are kept, in this process", "debug")

    @property
    def destination(self) -> str:
        """Its name."""
        return f"debug {self.name}"

    def open(self, environment: PartEnvironment) -> OpenSender:
        """Return the sender at work."""
        return OpenDebugSender(self.name)

    @staticmethod
    def script(name: str, outcomes: Iterable[SendOutcome | Exception]) -> None:
        """Say what the next calls of a sender do, one after the other; an exception is raised."""
        _of(name).script.extend(outcomes)

    @staticmethod
    def attempts(name: str) -> tuple[DebugAttempt, ...]:
        """Return the calls of a sender, the oldest first."""
        return tuple(_of(name).attempts)

    @staticmethod
    def delivered(name: str) -> tuple[DebugAttempt, ...]:
        """Return the calls that delivered an event, the oldest first."""
        return tuple(each for each in _of(name).attempts if isinstance(each.outcome, Delivered))

    @staticmethod
    def reset(name: str) -> None:
        """Forget what a sender has kept, and what it shall do."""
        _kept.pop(name, None)


class OpenDebugSender:
    """A debug sender at work."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def send(self, message: Message, key: str) -> SendOutcome:
        """Keep an event, and do what the test says."""
        kept = _of(self._name)
        outcome = kept.script.popleft() if kept.script else Delivered()
        kept.attempts.append(DebugAttempt(key, message, outcome))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def close(self) -> None:
        """Do nothing: what was kept stays, for the test to see."""
