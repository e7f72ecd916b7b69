# SPDX-License-Identifier: MIT
"""The transition tables of ``redrive.recovery.states`` in SQL. Pure: no I/O.

A statement that stores a new state has ``SET {transition.to} … WHERE {transition.able}``, so a transition outside
the tables is never stored. States are literal numbers in the text of a statement, because some indexes are partial.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from typing import Final, NamedTuple, TypeVar

from redrive.recovery.port import BatchState, OperationState, Outcome, Status, sources, target

S = TypeVar("S", bound=IntEnum)
E = TypeVar("E", bound=Enum)

_COLUMNS: Final[Mapping[type[IntEnum], str]] = {
    Status: "status",
    Outcome: "outcome",
    BatchState: "state",
    OperationState: "state",
}


class Transition(NamedTuple):
    """An event of a transition table.

    Attributes:
        to: the assignment of the new state, ``status = 2``.
        able: the condition that the event is possible, ``status IN (1, 3)``.
    """

    to: str
    able: str


def transition(table: Mapping[tuple[S, E], S], event: E) -> Transition:
    """Return an event that always leads to the same state."""
    to, able = target(table, event), sources(table, event)
    name = _COLUMNS[type(to)]
    return Transition(f"{name} = {int(to)}", among(name, able))


def among(column: str, states: Iterable[IntEnum]) -> str:
    """Return the condition that a column has one of these states."""
    numbers = [str(int(state)) for state in states]
    return f"{column} = {numbers[0]}" if len(numbers) == 1 else f"{column} IN ({', '.join(numbers)})"


def above(column: str, state: IntEnum) -> str:
    """Return the condition that a column has one of the states with a larger number than this."""
    return f"{column} > {int(state)}"
