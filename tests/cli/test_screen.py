# SPDX-License-Identifier: MIT
"""What a terminal is shown."""

import json

import pytest
from rich.panel import Panel
from rich.text import Text

from redrive.cli import screen
from redrive.clock import system_clock, utc


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-1, "0 s"), (0.2, "0 s"), (59, "59 s"), (119, "119 s"), (121, "2 m"), (7_300, "2 h"), (200_000, "2 d")],
)
def test_an_age_is_short(seconds, shown):
    assert screen.length(seconds) == shown


def test_an_age_counts_from_now():
    assert screen.age(utc(system_clock.time() - 180)) == "3 m"
    assert screen.age(None) == "-"


def test_a_body_cannot_move_the_cursor_or_set_colours():
    assert screen.shown(b"a\x1b[31mred\r\x07 \xe2\x80\xae[bold]b[/]").plain == "a\\x1b[31mred\\r\\x07 \\u202e[bold]b[/]"
    assert screen.shown(b"a\tb\nc").plain == "a\tb\nc"


def test_what_nobody_has_looked_at_is_spelled_out_too(capsys):
    """However a text gets to the console, and in whatever: the console itself is the last one to look."""
    table = screen.table("why", long=("why",))
    table.add_row(Text("a\x1b[2Jb"))
    for each in ("a\x1b[2Jb", Text("a\x1b[2Jb"), table, Panel("a\x1b[2Jb")):
        screen.out().print(each)
        said = capsys.readouterr().out
        assert (r"a\x1b" in said, "\x1b" in said) == (True, False)
    screen.err().print("[bold]a\u202e[/]")
    assert capsys.readouterr().err == "[bold]a\\u202e[/]\n", "and nothing in it is markup"
    screen.refusal("a\x1b[2Jb")
    assert capsys.readouterr().err == "error: a\\x1b[2Jb\n"


def test_json_on_a_line_is_exact_and_harmless():
    value = {"a": "Müller \u202e\x7f\x85\U000e0001\ud800\n"}
    line = screen.json_line(value)
    assert line == r'{"a": "Müller \u202e\u007f\u0085\udb40\udc01\ud800\n"}'
    assert json.loads(line) == value


def test_a_column_shows_one_line():
    assert screen.body_line(b"a\n  b\n").plain == "a b"


def test_a_long_body_cut_inside_a_character_is_still_text():
    assert screen.body_line("é".encode() * 300).plain.startswith("ééé")
    assert screen.body_line(b"x" + "é".encode() * 300).plain.startswith("xééé")
