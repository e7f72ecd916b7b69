# SPDX-License-Identifier: MIT
"""Text from outside, as people may see it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.printable import one_line, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Müller 🙂 [bold]", "Müller 🙂 [bold]"),
        ("a\x1b[31mred\x07", r"a\x1b[31mred\x07"),
        ("a\rb\x9bc\x7f", r"a\rb\x9bc\x7f"),
        ("safe\u202egnp.exe\u2066", r"safe\u202egnp.exe\u2066"),
        ("one\u2028two\u0085three", r"one\u2028two\x85three"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_could_change_a_terminal_is_spelled_out(text, shown):
    assert printable(text) == one_line(text) == shown


def test_lines_stay_where_there_may_be_lines():
    assert printable("a\n\tb") == "a\n\tb"
    assert one_line("a\n\tb") == r"a\n\tb"


def test_one_line_is_short():
    assert one_line("x" * 1_001) == "x" * 999 + "…"
    assert one_line("x" * 1_000) == "x" * 1_000
    assert one_line("\n" * 10, most=4) == "\\n\\…"
    assert one_line(17) == "17"


@given(st.text() | st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Co"])), st.integers(1, 50))
def test_nothing_gets_through(text, most):
    assert all(each.isprintable() or each in "\n\t" for each in printable(text))
    assert one_line(text, most).isprintable()
    assert len(one_line(text, most)) <= most
    assert printable(printable(text)) == printable(text)
