# SPDX-License-Identifier: MIT
"""Each mark of the language has a spelling in each database."""

import pytest

from redrive.engines.sql import dialects
from redrive.engines.sql.dialects import POSTGRES, SQLITE, lists, statement
from redrive.engines.sql.recovery.schema import KEYS, RECOVERY


@pytest.mark.parametrize(
    ("text", "sqlite", "postgres"),
    [
        (
            "UPDATE @.t SET a = ? WHERE b = ?",
            "UPDATE redrive_t SET a = ? WHERE b = ?",
            "UPDATE s.t SET a = $1 WHERE b = $2",
        ),
        (
            "a IN @ints AND b = ?",
            "a IN (SELECT value FROM json_each(?)) AND b = ?",
            "a = ANY ($1::bigint[]) AND b = $2",
        ),
        ("a IN @texts", "a IN (SELECT value FROM json_each(?))", "a = ANY ($1::text[])"),
        ("SELECT a FROM @.t @lock", "SELECT a FROM redrive_t", "SELECT a FROM s.t FOR UPDATE"),
        ("SELECT @list(t.a)", "SELECT json_group_array(t.a)", "SELECT json_agg(t.a)"),
    ],
)
def test_a_mark_is_spelled_as_the_database_wants_it(text, sqlite, postgres):
    assert statement(SQLITE, text, "redrive_") == sqlite
    assert statement(POSTGRES, text, "s.") == postgres


@pytest.mark.parametrize("dialect", [SQLITE, POSTGRES], ids=["sqlite", "postgres"])
def test_a_search_names_its_column_and_takes_one_value(dialect):
    text = statement(dialect, "a = ? AND @contains(c.search) AND @within(c.body) AND b = ?", "")
    assert "c.search" in text
    assert "c.body" in text
    assert "@" not in text
    assert text.endswith("b = ?" if dialect is SQLITE else "b = $4")


def test_both_dialects_spell_the_same_marks():
    assert set(SQLITE.marks) == set(POSTGRES.marks)
    assert set(SQLITE.types) - set(POSTGRES.types) == {"@."}  # PostgreSQL's schema is known when it is opened
    assert set(SQLITE.marks) > dialects._TAKES_A_VALUE


@pytest.mark.parametrize("script", [RECOVERY, KEYS])
def test_a_migration_has_no_mark_left(script):
    assert "@" not in SQLITE.migration(script)
    assert "@" not in POSTGRES.migration(script).replace("@.", "")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(1, "a", None)], [[1], ["a"], [None]]),
        ([(1, "a", None), (2, "a", None)], [[1, 2], ["a"], [None]]),
        ([(1, "a", 5), (2, "b", 5)], [[1, 2], ["a", "b"], [5, 5]]),  # one 5 would be 5 and NULL
        ([(1, "a", 5), (1, "a", None)], [[1, 1], ["a"], [5, None]]),
    ],
)
def test_a_column_of_equal_values_is_sent_once_if_it_can_be_told_from_null(rows, expected):
    assert lists((("number", "integer!"), ("name", "text!"), ("size", "integer")), rows) == expected
