# SPDX-License-Identifier: MIT
"""States in SQL come from the transition tables, and from nowhere else."""

import ast
import re
from pathlib import Path

import pytest

import redrive.engines.sql
from redrive.engines.sql.recovery.schema import RECOVERY
from redrive.engines.sql.recovery.state_sql import above, among, transition
from redrive.recovery.states import (
    BATCHES,
    CLAIMS,
    ENDED,
    MESSAGES,
    PARTS,
    SETTLED,
    BatchEvent,
    FailureEvent,
    Outcome,
    PartEvent,
    Status,
)

FILES = [
    path
    for path in Path(redrive.engines.sql.__path__[0]).rglob("*.py")
    if path.name != "__init__.py" and not path.name.endswith("schema.py")
]
COLUMNS = r"\b(status|state|outcome)"
BARE = re.compile(
    rf"{COLUMNS}\b\s*(=|<>|!=|[<>]=?|(NOT )?IN)\s*\(?\s*\d|\bint\((Status|Outcome|BatchState|OperationState)\."
)
BY_HAND = re.compile(rf"\bSET\b((?!\bWHERE\b).)*{COLUMNS} = (?!\?|excluded\.)")
"""A statement that sets a state to something other than a value that a table gave; what is excluded was given."""


@pytest.mark.parametrize(
    ("table", "event", "to", "able"),
    [
        (MESSAGES, FailureEvent.STAGE, "status = 2", "status = 1"),
        (MESSAGES, FailureEvent.CONFIRM, "status = 3", "status IN (1, 2)"),
        (PARTS, PartEvent.SUPERSEDE, "outcome = 6", "outcome = 2"),
        (BATCHES, BatchEvent.CLAIM, "state = 2", "state = 1"),
    ],
)
def test_a_transition_has_a_new_state_and_a_condition(table, event, to, able):
    assert transition(table, event) == (to, able)


def test_an_event_that_leads_to_several_states_is_refused():
    table = {(Status.UNRESOLVED, "x"): Status.RESOLVED, (Status.RESOLVED, "x"): Status.ARCHIVED}
    with pytest.raises(ValueError, match="too many values"):
        transition(table, "x")


@pytest.mark.parametrize(
    "condition",
    [
        among("status", [Status.UNRESOLVED]),
        above("status", Status.UNRESOLVED),
        among("status", SETTLED),
        among("outcome", CLAIMS),
        among("outcome", [Outcome.PENDING]),
        among("state", ENDED).replace(" IN", " NOT IN"),
    ],
)
def test_an_index_for_certain_states_is_for_those_that_statements_ask_for(condition):
    assert f"WHERE {condition};" in RECOVERY


def statements(path):
    """Yield the texts in a file that are no docstrings, each as one; what is put into them stands as ``{name}``."""
    tree = ast.parse(path.read_text())
    inner = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    inner |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
                for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inner:
            yield node.value


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_statement_has_the_number_of_a_state_or_sets_one_by_hand(path):
    assert [text for text in statements(path) if BARE.search(text) or BY_HAND.search(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 FROM @.failures f WHERE f.status IN (3, 4)",
        "SELECT 1 FROM @.operations WHERE state NOT IN (6, 7)",
        "UPDATE @.parts SET outcome = 2, at = ?",
        "UPDATE @.parts SET at = ?, outcome = {_PENDING} WHERE failure = ?",
        "SET x = {int(Outcome.PENDING)}",
    ],
)
def test_the_search_for_states_by_hand_finds_them(text):
    assert BARE.search(text) or BY_HAND.search(text)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_columns_are_read_by_name(path):
    """``rows[0]`` is a row; ``row[0]`` would be whatever the statement happens to name first."""
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, int)
        ):
            assert ast.unparse(node.value) not in ("row", "rows[0]"), f"{path.name}:{node.lineno}"
