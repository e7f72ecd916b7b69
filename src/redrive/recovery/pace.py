# SPDX-License-Identifier: MIT
"""How fast a lane sends. Pure: no I/O, no randomness; the caller passes the time of a monotonic clock.

The promise: whenever a message is sent, the number of messages sent to that destination in the last second, this one
included, is at most the rate at that moment; at a rate below one a second, at most one in ``1 / rate`` seconds. A
message is sent at some moment between the beginning and the end of a send, and both are known. So a message is counted
for as long as it may have been sent within the last second, however long a send takes.
"""

from collections import deque
from typing import Final

_MOST_AT_ONCE: Final = 10
"""The messages of one second are sent in so many parts."""


def window(rate: float) -> float:
    """Return the seconds in which a rate is counted."""
    return max(1.0, 1.0 / rate)


def at_once(rate: float) -> int:
    """Return how many messages are sent at a time."""
    return max(1, int(rate / _MOST_AT_ONCE))


class Pace:
    """What a lane has sent recently, and so what it may send now.

    Attributes:
        noted: the instant stored in the ledger: by then at the latest, everything has been sent.
        is_ahead: whether that instant is later than what this process knows by now.
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
        """Take into account what other processes have sent, all of it by ``until`` at the latest."""
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
