# SPDX-License-Identifier: MIT
"""Draws the life of a message from its transition table, between two marks in docs/explanation/life-of-a-message.md.

Run it after a change to ``redrive.broker.lifecycle.TRANSITIONS``; a test compares.
"""

import re
from collections import defaultdict
from pathlib import Path

from redrive.broker.lifecycle import TRANSITIONS, End, State

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "life-of-a-message.md"
MARKS = ("<!-- lifecycle:begin -->", "<!-- lifecycle:end -->")


def diagram() -> str:
    """Return the state diagram, in mermaid; events that lead the same way share an arrow."""
    arrows: dict[tuple[State | End, State | End], list[str]] = defaultdict(list)
    for (state, event), after in TRANSITIONS.items():
        arrows[state, after].append(event.value)
    begin = [f"    [*] --> {name(State.READY)}: send", f"    [*] --> {name(State.SCHEDULED)}: schedule"]
    lines = [f"    {name(a)} --> {name(b)}: {', '.join(events)}" for (a, b), events in arrows.items()]
    return "\n".join(["stateDiagram-v2", *begin, *lines, f"    {name(End.GONE)} --> [*]"])


def name(state: State | End) -> str:
    """Return a state's name as the diagram writes it."""
    return "dead_letter_queue" if state is End.DEAD else state.name.lower()


def with_diagram(page: str) -> str:
    """Return a page with the diagram between its marks."""
    begin, end = MARKS
    drawn = f"{begin}\n\n```mermaid\n{diagram()}\n```\n\n{end}"
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: drawn, page, count=1, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(with_diagram(PAGE.read_text()))
