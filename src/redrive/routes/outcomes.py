# SPDX-License-Identifier: MIT
"""What a sender, or a filter that reaches outside, says about one attempt. Pure: no I/O, no clock.

=================== =========== ================== ==========================================
outcome             attempt     the destination    what becomes of the leg
=================== =========== ================== ==========================================
Delivered           ends it     works              done
TryLater            is used up  may be down        replayed later; dead after the last attempt
DestinationDown     not used up is down            waits until the destination is back
Throttled           not used up works              waits for as long as the destination asks
Rejected            ends it     works              dead at once: the same event fails again
=================== =========== ================== ==========================================
"""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Delivered:
    """The destination has the event."""


@dataclass(frozen=True, slots=True)
class TryLater:
    """This attempt failed, and another may succeed.

    Attributes:
        reason: why, for people.
        after: seconds until the next attempt, if the destination said so.
    """

    reason: str
    after: float | None = None


@dataclass(frozen=True, slots=True)
class DestinationDown:
    """The destination cannot be reached, whatever the event is. No attempt of the event is used up.

    Attributes:
        reason: why, for people.
        after: seconds until the next attempt, if the destination said so.
    """

    reason: str
    after: float | None = None


@dataclass(frozen=True, slots=True)
class Throttled:
    """The destination works and asks for a pause. No attempt of the event is used up.

    Attributes:
        reason: why, for people.
        after: seconds until the next attempt; None: the route decides.
    """

    reason: str
    after: float | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """The destination refuses this event, and would refuse it again.

    Attributes:
        reason: why, for people.
    """

    reason: str


SendFailure: TypeAlias = TryLater | DestinationDown | Throttled | Rejected
SendOutcome: TypeAlias = Delivered | SendFailure
