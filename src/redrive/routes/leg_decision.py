# SPDX-License-Identifier: MIT
"""What becomes of a leg that was not delivered. Pure: no I/O, no clock, no randomness."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from redrive.retry import AttemptFailure, RetryAfter
from redrive.routes.outcomes import DestinationDown, Rejected, SendFailure, Throttled, TryLater
from redrive.routes.route import RouteSettings

EXHAUSTED: Final = "Exhausted"
"""Why a leg is dead whose attempts are used up, or whose event is too old."""

_LONGEST_PAUSE_S: Final = 86_400.0
"""How long a destination can let an event wait, whatever it asks for: it is asked again once a day."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Try it again later; the attempt counts.

    Attributes:
        delay: seconds until then.
    """

    delay: float


@dataclass(frozen=True, slots=True)
class Park:
    """Try it again later; the attempt does not count.

    Attributes:
        delay: seconds until then.
    """

    delay: float


@dataclass(frozen=True, slots=True)
class Bury:
    """The leg is dead.

    Attributes:
        is_exhausted: whether its attempts were used up; otherwise it can never succeed.
        description: why, for people.
    """

    is_exhausted: bool
    description: str


LegDecision: TypeAlias = Replay | Park | Bury


def decide_leg(
    failure: SendFailure, settings: RouteSettings, *, attempt: int, age: float, is_down: bool, chance: float
) -> LegDecision:
    """Return what becomes of a leg.

    Args:
        failure: why it was not delivered.
        settings: the route's.
        attempt: which attempt it was, counted from 1.
        age: seconds since its event was taken over.
        is_down: whether the destination is down. Then no attempt counts, because any event would have failed.
        chance: a random number, 0 <= chance < 1.
    """
    match failure:
        case Rejected(reason):
            return Bury(is_exhausted=False, description=reason)
        case Throttled(_, after) | DestinationDown(_, after):
            return Park(_pause(after, settings, chance))
        case TryLater(_, after) if is_down:
            return Park(_pause(after, settings, chance))
        case TryLater(reason, after):
            answer = settings.delays.decide(AttemptFailure(attempt, chance=chance))
            if not isinstance(answer, RetryAfter):
                return Bury(is_exhausted=True, description=f"{attempt} attempts failed, the last with: {reason}")
            delay = answer.delay if after is None else max(answer.delay, after)
            if age + delay > settings.max_age:
                return Bury(
                    is_exhausted=True, description=f"it is {age:,.0f} s old (max_age); it failed with: {reason}"
                )
            return Replay(delay)


def _pause(after: float | None, settings: RouteSettings, chance: float) -> float:
    """Return how long a parked leg waits. Legs that failed together come back one after the other, up to 20 % later."""
    wanted = settings.probe_after if after is None else after
    return (min(wanted, _LONGEST_PAUSE_S) if wanted >= 0.0 else 0.0) * (1.0 + 0.2 * chance)
