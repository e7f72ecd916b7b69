# SPDX-License-Identifier: MIT
"""How fast a lane sends. Pure: no I/O, no randomness; it is told the time, on a clock that never goes back.

The promise: whenever a message is sent, no more messages have been sent to that destination in the second up to then,
this one included, than the rate that counts at that moment; at a rate below one a second, no more than one in
``1 / rate`` seconds. A message is sent at some moment between when sending begins and when it is over, and both are
known: so what was sent is counted for as long as it can have been sent within the second, however late a send is.
"""

from collections import deque
from typing import Final

_MOST_AT_ONCE: Final = 10
"""A second's worth goes in so many parts."""


def window(rate: float) -> float:
    """Return the seconds in which a rate is counted."""
    return max(1.0, 1.0 / rate)


def at_once(rate: float) -> int:
    """Return how many messages go at a time."""
    return max(1, int(rate / _MOST_AT_ONCE))


class Pace:
    """What a lane has sent of late, and so, what it may send now.

    Attributes:
        noted: what the ledger has of it: by then at the latest, all of it has been sent.
        is_ahead: whether that lies ahead of what is known here by now.
    """

    def __init__(self) -> None:
        self.noted: float | None = None
        self.is_ahead = False
        self._sent: deque[tuple[float, int]] = deque()
        self._began, self._many = float("-inf"), 0
        self._others_until = float("-inf")

    def wait(self, rate: float, now: float) -> float:
        """Return the seconds until something may be sent; 0: it may now."""
        even = min(self._many / rate, window(rate))  # the last part may have been sent at a higher rate
        due = [self._began + even, self._others_until + window(rate)]
        left = int(max(1.0, rate)) - 1
        for over, many in reversed(self._sent):
            left -= many
            if left < 0:
                due.append(over + window(rate))
                break
        return max(0.0, max(due) - now)

    def room(self, rate: float, now: float) -> int:
        """Return how many messages may be sent now."""
        if self.wait(rate, now) > 0.0:
            return 0
        recent = sum(many for over, many in self._sent if over + window(rate) > now)
        return min(at_once(rate), int(max(1.0, rate)) - recent)

    def others(self, until: float) -> None:
        """Take into account what others have sent: all of it by then at the latest."""
        self._others_until = until

    def begin(self, many: int, now: float) -> None:
        """Note that so many messages are about to be sent."""
        self._began, self._many = now, many

    def end(self, many: int, now: float) -> None:
        """Note that so many messages were sent, since ``begin``."""
        if not many:
            return
        self._sent.append((now, many))
        while len(self._sent) > 1 and self._sent[0][0] <= now - 1.0:  # below one a second, the last one counts
            self._sent.popleft()
