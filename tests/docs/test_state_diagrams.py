# SPDX-License-Identifier: MIT
"""The drawings of states are the tables that the code goes by, and the tables hang together."""

import re
from functools import cache

import pytest

from tools.state_diagrams import DRAWINGS, LIFE, PIPELINES, RECOVERY, diagram, name, with_diagrams

each_drawing = pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda drawing: drawing.name)
each_page = pytest.mark.parametrize("page", [LIFE, RECOVERY, PIPELINES], ids=lambda page: page.stem)


@each_page
def test_the_page_shows_the_tables(page):
    text = page.read_text()
    assert all(mark in text for drawing in DRAWINGS if drawing.page == page for mark in drawing.marks)
    assert text == with_diagrams(page), "run: python -m tools.state_diagrams"


@each_drawing
def test_every_transition_is_drawn(drawing):
    drawn = diagram(drawing).splitlines()
    for state, event in drawing.table:
        assert any(line.strip().startswith(f"{name(state)} --> ") and event.value in line for line in drawn)


@each_drawing
def test_every_state_can_be_reached(drawing):
    reached = set(drawing.begins.values())
    while grown := {after for (state, _), after in drawing.table.items() if state in reached} - reached:
        reached |= grown
    assert reached == {state for pair in drawing.table.items() for state in (pair[0][0], pair[1])} | reached
    states = type(next(iter(drawing.table))[0])
    assert reached >= set(states)


@each_drawing
def test_only_the_states_that_are_called_so_are_ends(drawing):
    leaving = {state for (state, _), after in drawing.table.items() if after is not state}
    states = {state for pair in drawing.table.items() for state in (pair[0][0], pair[1])}
    ends = {state for state in states if state not in leaving and name(state) != "dead_letter_queue"}
    assert ends == set(drawing.ends)


@each_page
def test_the_functions_that_the_page_names_are_there(page):
    named = set(re.findall(r"`(?:[A-Z]\w+\.)?(\w+)`", page.read_text())) - {"COMMIT"}
    assert named - names_in(page.parents[2] / "src" / "redrive") == set()


@cache
def names_in(folder):
    """Return the names that code defines, assigns, quotes or gives to tables and columns."""
    found = set()
    for path in folder.rglob("*.py"):
        for place in (
            r"\b(?:def|class) (\w+)",
            r"\b(\w+)\s*[=:(]",
            r'"(\w+)"',
            r"(?:TABLE|VIEW) @\.(\w+)",
            r"AS (\w+)",
        ):
            found.update(re.findall(place, path.read_text()))
    return found
