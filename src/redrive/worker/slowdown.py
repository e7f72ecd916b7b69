# SPDX-License-Identifier: MIT
"""Slows a worker down when everything fails. Pure: no I/O, no clock, no randomness.

When a service is down, each message would fail, be redelivered, fail again, and end in the error queue: thousands of
messages for one cause. So after some failures in a row a worker pauses, and then tries one message at a time. Each
failure makes the next pause longer. The first success brings the worker back to full speed.
"""

from dataclasses import dataclass, replace

from redrive import duration, number
from redrive.errors import InvalidSetting
from redrive.retry import AttemptFailure, Exponential, RetryAfter


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDown:
    """When and how much to slow down.

    Attributes:
        after: after how many failures in a row the worker slows down.
        first: seconds of the first pause; each later pause is twice as long as the one before, give or take 20 %.
        longest: the longest pause in seconds, before those 20 %.
    """

    after: int = 10
    first: float = 1.0
    longest: float = 60.0

    def __post_init__(self) -> None:
        number.whole("after", self.after)
        object.__setattr__(self, "first", duration.seconds("first", self.first))
        object.__setattr__(self, "longest", duration.seconds("longest", self.longest))
        if self.longest < self.first:
            raise InvalidSetting("longest", self.longest, f"must be at least first ({self.first:g} s)")

    def pause(self, n: int, chance: float) -> float:
        """Return the seconds of the ``n``-th pause, counted from 1."""
        policy = Exponential(min=self.first, max=self.longest, max_attempts=None)
        answer = policy.decide(AttemptFailure(n, chance=chance))
        return answer.delay if isinstance(answer, RetryAfter) else self.longest


@dataclass(frozen=True, slots=True)
class SlowdownState:
    """How fast a worker currently is.

    Attributes:
        failures: how many failures there were in a row.
        pauses: how many pauses followed them.
        pause: seconds to wait before the next message; 0 at full speed.
    """

    failures: int = 0
    pauses: int = 0
    pause: float = 0.0

    @property
    def is_slow(self) -> bool:
        """Whether messages are tried one at a time."""
        return self.pauses > 0


FULL_SPEED = SlowdownState()


def after_success(_pace: SlowdownState) -> SlowdownState:
    """Return the pace after a message was handled."""
    return FULL_SPEED


def after_failure(pace: SlowdownState, policy: SlowDown | None, chance: float, *, is_probe: bool) -> SlowdownState:
    """Return the pace after a handler failed.

    Args:
        pace: the pace before.
        policy: when to slow down; None: never.
        chance: a random number, 0 <= chance < 1.
        is_probe: whether it was the one message that a slow worker tries. The others began before the worker slowed
            down, so their failures say nothing new.
    """
    failures = pace.failures + 1
    is_longer = is_probe if pace.is_slow else policy is not None and failures >= policy.after
    if policy is None or not is_longer:
        return replace(pace, failures=failures)
    pauses = pace.pauses + 1
    return SlowdownState(failures, pauses, policy.pause(pauses, chance))
