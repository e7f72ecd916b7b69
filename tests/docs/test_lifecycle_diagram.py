# SPDX-License-Identifier: MIT
"""The drawing of a message's life is the table that the code goes by."""

import re

from redrive.broker.lifecycle import TRANSITIONS
from tools.lifecycle_diagram import MARKS, PAGE, diagram, with_diagram


def test_the_page_shows_the_table():
    page = PAGE.read_text()
    assert all(mark in page for mark in MARKS)
    assert page == with_diagram(page), "run: python -m tools.lifecycle_diagram"


def test_every_transition_is_drawn():
    drawn = diagram()
    for state, event in TRANSITIONS:
        assert any(
            line.strip().startswith(f"{state.name.lower()} --> ") and event.value in line for line in drawn.splitlines()
        )


def test_the_functions_that_the_page_names_are_there():
    source = "\n".join(path.read_text() for path in (PAGE.parents[2] / "src" / "redrive").rglob("*.py"))
    named = set(re.findall(r"`(?:[A-Z]\w+\.)?(\w+)`", PAGE.read_text())) - {"COMMIT"}
    places = r"\b(?:def|class) {0}\b|\b{0}\b\s*[=:(]|\"{0}\""
    assert [name for name in named if not re.search(places.format(name), source)] == []
