# SPDX-License-Identifier: MIT
"""Reading TOML with the line of every place: by example, against tomllib, and with any text."""

import textwrap
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.toml_lines import NotToml, nearest, parse


def lines_of(text):
    return parse(textwrap.dedent(text))[1]


def test_tables_keys_and_dotted_keys_have_the_lines_they_are_on():
    lines = lines_of("""\
        application = "shop"

        [routes.big]
        sender.kind = "log"
        "max age" = 5
        [routes."with.dot"]
        x = 1
        """)
    assert lines == {
        ("application",): 1,
        ("routes",): 3,
        ("routes", "big"): 3,
        ("routes", "big", "sender"): 4,
        ("routes", "big", "sender", "kind"): 4,
        ("routes", "big", "max age"): 5,
        ("routes", "with.dot"): 6,
        ("routes", "with.dot", "x"): 7,
    }


def test_elements_of_a_list_are_counted_in_either_way_to_write_it():
    lines = lines_of("""\
        [routes.a]
        filters = [
            { kind = "match" },
            # a remark
            { kind = "log" },
        ]
        sender = "x"
        [[routes.b.filters]]
        kind = "match"
        [[routes.b.filters]]
        kind = "log"
        """)
    assert lines["routes", "a", "filters", "1"] == 3
    assert lines["routes", "a", "filters", "2"] == 5
    assert lines["routes", "a", "sender"] == 7
    assert lines["routes", "b", "filters", "1", "kind"] == 9
    assert lines["routes", "b", "filters", "2"] == 10
    assert lines["routes", "b", "filters", "2", "kind"] == 11


def test_a_list_that_ends_on_the_line_of_its_last_element_hides_nothing_behind_it():
    lines = lines_of("""\
        [routes.a]
        filters = [
            { kind = "match" },
            { kind = "log" }]
        sender = "x"
        [routes.b]
        sender = "y"
        """)
    assert lines["routes", "a", "filters", "2"] == 4
    assert lines["routes", "a", "sender"] == 5
    assert lines["routes", "b", "sender"] == 7


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_what_stands_in_a_text_of_several_lines_is_no_table_and_no_key(quotes):
    lines = lines_of(f"""\
        [routes.a]
        text = {quotes}
        [routes.b]
        sender = [
        {quotes}
        sender = "x"
        """)
    assert lines == {
        ("routes",): 1,
        ("routes", "a"): 1,
        ("routes", "a", "text"): 2,
        ("routes", "a", "sender"): 6,
    }


def test_windows_line_ends_are_counted_once():
    assert parse("a = 1\r\nb = 2\r\n")[1] == {("a",): 1, ("b",): 2}


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (("a", "b"), (2, ("a", "b"))),
        (("a", "b", "1", "c"), (2, ("a", "b"))),
        (("a", "x"), (1, ("a",))),
        (("y",), (1, ())),
        ((), (1, ())),
    ],
)
def test_an_unknown_place_is_where_the_nearest_known_one_around_it_is(place, expected):
    assert nearest({("a",): 1, ("a", "b"): 2}, place) == expected


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a = 1\nb =", 2, "Invalid value"),
        ("a = 1\n\nb = [1,", 3, ""),
        ("a = 1\na = 2", 2, "Cannot overwrite a value"),
        ("[a]\n[b]\n[a]", 3, "Cannot declare"),
        ('["x (at line 7, column 1)"]\n["x (at line 7, column 1)"]\n', 2, "Cannot declare"),
        (f"a = 1\nb = {'[' * 2_000}", 1, ""),
        (f"a = {'1' * 5_000}", 1, ""),
    ],
)
def test_the_line_of_what_is_no_toml(text, line, problem):
    with pytest.raises(NotToml) as caught:
        parse(text)
    assert caught.value.line == line
    assert problem in caught.value.problem


@given(st.text(st.sampled_from("ab.=[]{}\"'#\n\r ,1\\"), max_size=60))
def test_any_text_is_read_as_tomllib_reads_it_or_refused(text):
    try:
        expected = tomllib.loads(text)
    except ValueError:
        with pytest.raises(NotToml) as caught:
            parse(text)
        assert 1 <= caught.value.line <= text.count("\n") + 1
    else:
        tables, lines = parse(text)
        assert tables == expected
        assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())


NAMES = st.text(st.sampled_from("ab-. ["), min_size=1, max_size=4)


@given(st.dictionaries(NAMES, st.dictionaries(NAMES, st.integers(0, 9), max_size=3), min_size=1, max_size=4))
def test_every_key_is_found_on_its_line(tables):
    written, expected = [], {}
    for name, table in tables.items():
        written.append(f'["{name}"]')
        expected[name,] = len(written)
        for key, value in table.items():
            written.append(f'"{key}" = {value}')
            expected[name, key] = len(written)
    assert parse("\n".join(written)) == (tables, expected)
