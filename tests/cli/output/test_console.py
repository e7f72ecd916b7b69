# SPDX-License-Identifier: MIT
"""What a terminal gets: nothing raw."""

import json

from rich.panel import Panel
from rich.text import Text

from redrive.cli.output import console
from redrive.cli.output.table import table


def test_text_that_no_other_function_has_checked_is_spelled_out(capsys):
    """However a text gets to the console, and in whatever it is: the console itself is the last to check it."""
    made = table("why", long=("why",))
    made.add_row(Text("a\x1b[2Jb"))
    for each in ("a\x1b[2Jb", Text("a\x1b[2Jb"), made, Panel("a\x1b[2Jb")):
        console.out().print(each)
        printed = capsys.readouterr().out
        assert (r"a\x1b" in printed, "\x1b" in printed) == (True, False)
    console.err().print("[bold]a\u202e[/]")
    assert capsys.readouterr().err == "[bold]a\\u202e[/]\n", "and nothing in it is markup"
    console.refusal("a\x1b[2Jb")
    assert capsys.readouterr().err == "error: a\\x1b[2Jb\n"


def test_json_on_a_line_is_exact_and_harmless():
    value = {"a": "Müller \u202e\x7f\x85\U000e0001\ud800\n"}
    line = console.json_line(value)
    assert line == r'{"a": "Müller \u202e\u007f\u0085\udb40\udc01\ud800\n"}'
    assert json.loads(line) == value


def test_an_empty_warning_is_not_printed(capsys):
    console.warn("")
    console.warn("look out")
    assert capsys.readouterr().err == "look out\n"
