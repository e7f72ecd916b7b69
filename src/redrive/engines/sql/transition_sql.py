# SPDX-License-Identifier: MIT
"""Transition tables in SQL. Pure: no I/O.

A statement that stores a new state has ``SET {transition.to} … WHERE {transition.able}``, so a transition outside
the tables is never stored. States are literal numbers in the text of a statement, because some indexes are partial.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from typing import NamedTuple, TypeVar

from redrive.transition_table import sources, target

S = TypeVar("S", bound=IntEnum)
E = TypeVar("E", bound=Enum)


class Transition(NamedTuple):
    """An event of a transition table.

    Attributes:
        to: the assignment of the new state, ``status = 2``.
        able: the condition that the event is possible, ``status IN (1, 3)``.
    """

    to: str
    able: str


def transition(table: Mapping[tuple[S, E], S], event: E, column: str = "state") -> Transition:
    """Return an event that always leads to the same state."""
    to, able = target(table, event), sources(table, event)
    return Transition(f"{column} = {int(to)}", among(column, able))


def among(column: str, states: Iterable[IntEnum]) -> str:
    """Return the condition that a column has one of these states."""
    numbers = [str(int(state)) for state in states]
    return f"{column} = {numbers[0]}" if len(numbers) == 1 else f"{column} IN ({', '.join(numbers)})"
