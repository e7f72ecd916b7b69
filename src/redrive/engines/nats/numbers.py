# SPDX-License-Identifier: MIT
"""The numbers of messages: higher for what is sent later, and never the same from two engines.

A number is the microsecond in which it was given out, followed by a small number that only one open engine has. Which
ones are taken is noted in the stream, for a day, and again after some hours.
"""

from random import Random
from typing import Final

from redrive.clock import system_clock
from redrive.engines.nats.errors import StreamRefusal
from redrive.engines.nats.group_commit import GroupCommit, StreamEntry
from redrive.engines.nats.subjects import Subjects

_NODE_BITS: Final = 12
_SINCE: Final = 1_767_225_600.0
"""The first moment of 2026."""

_TAKEN_FOR_S: Final = 86_400.0
_TRIES: Final = 50


class Numbers:
    """Gives out numbers.

    Args:
        subjects: the subjects of the namespace.
        chance: chooses among the nodes' numbers.
    """

    def __init__(self, subjects: Subjects, chance: Random) -> None:
        self._subjects = subjects
        self._chance = chance
        self._node = 0
        self._claimed_at = 0.0
        self._last = 0

    async def claim(self, commits: GroupCommit) -> None:
        """Take a number that no other engine has."""
        for _ in range(_TRIES):
            self._node = self._chance.randrange(1 << _NODE_BITS)
            try:
                await commits.commit([StreamEntry(self._subjects.node(self._node)).fenced(0).lasting(_TAKEN_FOR_S)])
            except StreamRefusal:
                continue
            self._claimed_at = system_clock.monotonic()
            return
        raise RuntimeError(f"{_TRIES} of the numbers tried for this engine are all taken")

    async def keep(self, commits: GroupCommit) -> None:
        """Say that the number is still taken, if that was long ago."""
        if system_clock.monotonic() - self._claimed_at < _TAKEN_FOR_S / 4:
            return
        self._claimed_at = system_clock.monotonic()
        await commits.commit([self._entry(_TAKEN_FOR_S)])

    async def give_up(self, commits: GroupCommit) -> None:
        """Let another engine have the number."""
        await commits.commit([self._entry(0.5)])

    def _entry(self, seconds: float) -> StreamEntry:
        entry = StreamEntry(self._subjects.node(self._node)).alone()
        return entry.lasting(seconds)

    def next(self) -> int:
        """Return a number higher than all before."""
        self._last = max(self._last + 1, int((system_clock.time() - _SINCE) * 1e6))
        return self._last << _NODE_BITS | self._node
