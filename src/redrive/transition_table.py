# SPDX-License-Identifier: MIT
"""Reading transition tables: what an event needs and leads to. Pure: no I/O.

A table has the state after an event, by the state before it and the event.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import TypeVar

S = TypeVar("S", bound=IntEnum)
E = TypeVar("E", bound=Enum)


def sources(table: Mapping[tuple[S, E], S], event: E) -> tuple[S, ...]:
    """Return the states in which an event can happen."""
    return tuple(state for state, each in table if each is event)


def target(table: Mapping[tuple[S, E], S], event: E) -> S:
    """Return the state that an event leads to, for one that always leads to the same."""
    (only,) = {to for (_, each), to in table.items() if each is event}
    return only


def changed(table: Mapping[tuple[S, E], S], state: S, event: E) -> S:
    """Return the state after an event; the same if it changes nothing."""
    return table.get((state, event), state)
