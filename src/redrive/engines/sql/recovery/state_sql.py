# SPDX-License-Identifier: MIT
"""The transition tables of ``redrive.recovery.states`` in SQL. Pure: no I/O."""

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Final, TypeVar

from redrive.engines.sql import transition_sql
from redrive.engines.sql.transition_sql import Transition, among
from redrive.recovery.port import BatchState, OperationState, Outcome, Status
from redrive.transition_table import target

__all__ = ["Transition", "above", "among", "transition"]

S = TypeVar("S", bound=IntEnum)
E = TypeVar("E", bound=Enum)

_COLUMNS: Final[Mapping[type[IntEnum], str]] = {
    Status: "status",
    Outcome: "outcome",
    BatchState: "state",
    OperationState: "state",
}


def transition(table: Mapping[tuple[S, E], S], event: E) -> Transition:
    """Return an event that always leads to the same state."""
    return transition_sql.transition(table, event, _COLUMNS[type(target(table, event))])


def above(column: str, state: IntEnum) -> str:
    """Return the condition that a column has one of the states with a larger number than this."""
    return f"{column} > {int(state)}"
