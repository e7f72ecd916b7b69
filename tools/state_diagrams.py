# SPDX-License-Identifier: MIT
"""Draws state diagrams from the tables that the code goes by, between marks in pages of docs/explanation.

Run it after a change to ``redrive.broker.lifecycle.TRANSITIONS`` or the ``states`` of a layer; a test compares.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from redrive.broker.lifecycle import TRANSITIONS, End, State
from redrive.pipeline.states import (
    FIRST_SHIPMENT_STATE,
    FIRST_SLOT_STATE,
    FIRST_TASK_STATE,
    SHIPMENTS,
    SLOTS,
    TASKS,
    SlotState,
)
from redrive.recovery.states import (
    BATCHES,
    ENDED,
    FIRST_BATCH_STATE,
    FIRST_OPERATION_STATE,
    FIRST_OUTCOME,
    FIRST_STATUS,
    MESSAGES,
    OPERATIONS,
    PARTS,
    BatchState,
    Outcome,
)

EXPLANATION = Path(__file__).parents[1] / "docs" / "explanation"
LIFE, RECOVERY = EXPLANATION / "life-of-a-message.md", EXPLANATION / "recovery.md"
PIPELINES = EXPLANATION / "pipelines.md"


class Drawing(NamedTuple):
    """A table, and where it is drawn.

    Attributes:
        page: the page.
        name: the name in its marks.
        table: the table.
        begins: how it begins: the first states, by what leads there.
        ends: the states in which it ends.
    """

    page: Path
    name: str
    table: Mapping[tuple[Enum, Enum], Enum]
    begins: Mapping[Enum, Enum] | Mapping[str, Enum]
    ends: tuple[Enum, ...]

    @property
    def marks(self) -> tuple[str, str]:
        """The marks that the drawing is between."""
        return f"<!-- {self.name}:begin -->", f"<!-- {self.name}:end -->"


DRAWINGS = (
    Drawing(LIFE, "lifecycle", TRANSITIONS, {"send": State.READY, "schedule": State.SCHEDULED}, (End.GONE,)),
    Drawing(RECOVERY, "message", MESSAGES, FIRST_STATUS, ()),
    Drawing(
        RECOVERY,
        "part",
        PARTS,
        FIRST_OUTCOME,
        tuple(outcome for outcome in Outcome if outcome not in {state for state, _ in PARTS}),
    ),
    Drawing(RECOVERY, "batch", BATCHES, FIRST_BATCH_STATE, (BatchState.DONE,)),
    Drawing(RECOVERY, "operation", OPERATIONS, FIRST_OPERATION_STATE, ENDED),
    Drawing(PIPELINES, "task", TASKS, FIRST_TASK_STATE, ()),
    Drawing(PIPELINES, "shipment", SHIPMENTS, FIRST_SHIPMENT_STATE, ()),
    Drawing(PIPELINES, "slot", SLOTS, FIRST_SLOT_STATE, (SlotState.SERVED, SlotState.FAILED)),
)


def diagram(drawing: Drawing) -> str:
    """Return a state diagram, in mermaid; events that lead the same way share an arrow."""
    arrows: dict[tuple[Enum, Enum], list[str]] = defaultdict(list)
    for (state, event), after in drawing.table.items():
        arrows[state, after].append(event.value)
    begin = [f"    [*] --> {name(state)}: {_label(event)}" for event, state in drawing.begins.items()]
    lines = [f"    {name(a)} --> {name(b)}: {', '.join(events)}" for (a, b), events in arrows.items()]
    return "\n".join(["stateDiagram-v2", *begin, *lines, *(f"    {name(state)} --> [*]" for state in drawing.ends)])


def _label(event: Enum | str) -> str:
    return event if isinstance(event, str) else str(event.value)


def name(state: Enum) -> str:
    """Return a state's name as the diagrams write it."""
    return "dead_letter_queue" if state is End.DEAD else state.name.lower()


def with_diagrams(path: Path) -> str:
    """Return a page with its diagrams between their marks."""
    page = path.read_text()
    for drawing in DRAWINGS:
        if drawing.page == path:
            page = _with_diagram(page, drawing)
    return page


def _with_diagram(page: str, drawing: Drawing) -> str:
    begin, end = drawing.marks
    drawn = f"{begin}\n\n```mermaid\n{diagram(drawing)}\n```\n\n{end}"
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: drawn, page, count=1, flags=re.DOTALL)


if __name__ == "__main__":
    for path in {drawing.page for drawing in DRAWINGS}:
        path.write_text(with_diagrams(path))
