# SPDX-License-Identifier: MIT
"""Where receives begin to look while dead rows cannot be removed. Pure: time is an argument.

A look from the beginning of a queue walks over everything that was there since somebody's transaction began, and takes
the longer the more that is. So most receives begin where something was last found, and looks from the beginning are
made so seldom that they take a twentieth of the time at most.
"""

_EVERY_S = 1.0
_TIMES_ITS_COST = 20.0
_LONGEST_S = 10.0
_MARGIN = 1_000
"""A receive begins so many numbers before its place: numbers are given before a commit, and not committed in order."""


class Heads:
    """The places, by queue."""

    def __init__(self) -> None:
        self._heads: dict[int, int] = {}
        self._looked: set[int] = set()  # the queues that were looked through since that was last due
        self._since = 0.0
        self._cost = 0.0
        self._is_stale = False

    def of(self, queue: int, now: float) -> int:
        """Return the number from which on a queue's next messages are looked for; 0 is the beginning."""
        after = min(_LONGEST_S, self._cost * _TIMES_ITS_COST)
        if now - self._since >= (after if self._is_stale else max(_EVERY_S, after)):
            self._looked.clear()
            self._since, self._cost, self._is_stale = now, 0.0, False
        return self._heads.get(queue, 0) if queue in self._looked else 0

    def note(self, found: dict[int, int], seconds: float) -> None:
        """Remember where something was found, and what it took to look there.

        Args:
            found: by queue, the lowest number that was received; 0 if nothing was.
            seconds: how long the call took.
        """
        if not self._looked.issuperset(found):
            self._looked.update(found)
            self._cost += seconds
        for queue, lowest in found.items():
            if lowest:
                self._heads[queue] = max(1, lowest - _MARGIN)

    def look_again(self) -> None:
        """Look from the beginning soon: something older has become ready again."""
        self._is_stale = True
