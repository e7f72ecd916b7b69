# SPDX-License-Identifier: MIT
"""Where receives start to scan while dead rows cannot be removed. Pure: time is an argument.

A scan from the beginning of a queue reads every row that was there since the oldest open transaction began, and takes
longer the more rows there are. So most receives start where a message was last found, and scans from the beginning are
so rare that they take at most a twentieth of the time.
"""

_EVERY_S = 1.0
_TIMES_ITS_COST = 20.0
_LONGEST_S = 10.0
_MARGIN = 1_000
"""A receive starts this many numbers earlier: numbers are assigned before a commit, and not committed in order."""


class Heads:
    """The numbers at which receives start, by queue."""

    def __init__(self) -> None:
        self._heads: dict[int, int] = {}
        self._looked: set[int] = set()  # the queues that were scanned from the beginning since that was last due
        self._since = 0.0
        self._cost = 0.0
        self._is_stale = False

    def of(self, queue: int, now: float) -> int:
        """Return the number from which a receive scans a queue; 0 is the beginning."""
        after = min(_LONGEST_S, self._cost * _TIMES_ITS_COST)
        if now - self._since >= (after if self._is_stale else max(_EVERY_S, after)):
            self._looked.clear()
            self._since, self._cost, self._is_stale = now, 0.0, False
        return self._heads.get(queue, 0) if queue in self._looked else 0

    def note(self, found: dict[int, int], seconds: float) -> None:
        """Remember where a message was found, and how long the scan took.

        Args:
            found: by queue, the lowest number that was received; 0 if no message was.
            seconds: how long the call took.
        """
        if not self._looked.issuperset(found):
            self._looked.update(found)
            self._cost += seconds
        for queue, lowest in found.items():
            if lowest:
                self._heads[queue] = max(1, lowest - _MARGIN)

    def look_again(self) -> None:
        """Scan from the beginning soon: an older message has become ready again."""
        self._is_stale = True
