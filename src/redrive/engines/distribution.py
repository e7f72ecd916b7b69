# SPDX-License-Identifier: MIT
"""Sharing out what was found together among those who asked. Pure."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def deal(found: Iterable[T], limits: Sequence[int]) -> list[list[T]]:
    """Give everybody one, then everybody another, as far as they go, and nobody more than his limit."""
    hands: list[list[T]] = [[] for _ in limits]
    waiting = deque(range(len(limits)))
    for one in found:
        who = waiting.popleft()
        hands[who].append(one)
        if len(hands[who]) < limits[who]:
            waiting.append(who)
    return hands
