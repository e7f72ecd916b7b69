# SPDX-License-Identifier: MIT
"""Distributes the messages found by one query among several receivers. Pure."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def deal(found: Iterable[T], limits: Sequence[int]) -> list[list[T]]:
    """Give each receiver one item in turn, as long as there are items, and no receiver more than its limit."""
    if len(limits) == 1:  # mostly there is one
        return [list(found)]
    hands: list[list[T]] = [[] for _ in limits]
    waiting = deque(range(len(limits)))
    for one in found:
        who = waiting.popleft()
        hands[who].append(one)
        if len(hands[who]) < limits[who]:
            waiting.append(who)
    return hands
