# SPDX-License-Identifier: MIT
"""The language of scripts: what a script yields, and what the short forms make of the answers."""

import sqlite3

import pytest

from redrive.engines.sql.script import Now, Sql, assigned, insert, now, plain, scalar, scalars, values_of


def result(script, *answers):
    """Run a script by hand with these answers; return its steps and its result."""
    steps = [next(script)]
    for answer in answers:
        try:
            steps.append(script.send(answer))
        except StopIteration as end:
            return steps, end.value
    raise AssertionError("it wants more")


def test_a_script_asks_for_the_time():
    assert result(now(), [(17.5,)]) == ([Now()], 17.5)


@pytest.mark.parametrize(("answer", "value"), [([("a",)], "a"), ([], None), ([(None,)], None)])
def test_a_scalar_is_the_only_column_of_the_only_row(answer, value):
    assert result(scalar(Sql("SELECT 1")), answer) == ([Sql("SELECT 1")], value)


def test_scalars_are_the_only_column_of_all_rows():
    assert result(scalars(Sql("SELECT 1")), [("a",), ("b",)])[1] == ["a", "b"]


def test_a_scalar_of_two_columns_is_an_error():
    with pytest.raises(ValueError, match="too many values"):
        result(scalar(Sql("SELECT 1, 2")), [(1, 2)])


def test_the_values_of_a_row_have_names_and_some_are_read_from_what_is_stored():
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    row = connection.execute("SELECT 1 AS number, 0.0 AS at").fetchone()
    connection.close()
    assert values_of(row, at="then") == {"number": 1, "at": "then"}


def test_columns_are_written_once():
    assert insert("notes", ("subject", "text")) == "INSERT INTO @.notes (subject, text) VALUES (?, ?)"
    assert assigned(("subject", "text")) == "subject = ?, text = ?"


def test_a_plain_text_has_no_nul_and_no_half_of_a_pair():
    assert plain("a\0b\ud800") == "ab\\ud800"
