# SPDX-License-Identifier: MIT
"""Bodies, headers and exceptions on a terminal."""

from redrive.cli.output.message_text import body_line, body_lines, body_text, exception_line, header_text


def test_a_body_cannot_move_the_cursor_or_set_colours():
    shown = body_text(b"a\x1b[31mred\r\x07 \xe2\x80\xae[bold]b[/]").plain
    assert shown == "a\\x1b[31mred\\r\\x07 \\u202e[bold]b[/]"
    assert body_text(b"a\tb\nc").plain == "a\tb\nc"


def test_a_body_that_is_not_text_is_counted():
    assert body_text(b"\xff\x00").plain == "2 bytes, not text; --json shows them"


def test_a_column_shows_one_line():
    assert body_line(b"a\n  b\n").plain == "a b"


def test_a_long_body_cut_inside_a_character_is_still_text():
    assert body_line("é".encode() * 300).plain.startswith("ééé")
    assert body_line(b"x" + "é".encode() * 300).plain.startswith("xééé")


def test_json_is_indented_unless_that_would_change_it():
    assert body_lines(b'{"a":1}').plain == '{\n  "a": 1\n}'
    assert body_lines(b'{"price": 1.10}').plain == '{"price": 1.10}'
    assert body_lines(b"{no json").plain == "{no json"


def test_a_long_header_is_counted_unless_it_is_wanted_whole():
    assert header_text("trace", "a\nb\n").plain == "trace: 2 lines"
    assert header_text("trace", "a\nb\n", whole=True).plain == "trace:\n  a\n  b"


def test_an_exception_in_a_column_has_no_module():
    assert exception_line("shop.errors.OutOfStock", "none\nleft").plain == "OutOfStock: none left"
    assert exception_line("", "").plain == "-"
