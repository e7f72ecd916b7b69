# SPDX-License-Identifier: MIT
"""Lengths of time, as arguments and as files write them."""

import math
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.duration import LONGEST, parse, seconds
from redrive.errors import InvalidSetting


def short(value):
    return repr(value)[:40]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1.0), (0.25, 0.25), (timedelta(milliseconds=1500), 1.5), (timedelta(days=2), 172_800.0), (LONGEST, LONGEST)],
)
def test_seconds_accepts_numbers_and_timedeltas(value, expected):
    assert seconds("wait", value) == expected
    assert type(seconds("wait", value)) is float


@pytest.mark.parametrize(
    "value",
    [
        *(-1, -0.001, timedelta(seconds=-1), math.nan, math.inf, -math.inf, 10**400, LONGEST * 1.001, timedelta.max),
        *(True, False, "1", "1s", b"1", None, Decimal(1), 1j, [1]),
    ],
    ids=short,
)
@pytest.mark.parametrize("zero", [True, False])
def test_seconds_refuses_what_is_no_length_of_time(value, zero):
    with pytest.raises(InvalidSetting, match=r"31,622,400 seconds, or a timedelta") as caught:
        seconds("wait", value, zero=zero)
    assert caught.value.setting == "wait"
    assert caught.value.value is value
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("nothing", [0, 0.0, -0.0, timedelta(0)], ids=repr)
def test_seconds_accepts_zero_only_where_it_makes_sense(nothing):
    assert seconds("wait", nothing, zero=True) == 0.0
    with pytest.raises(InvalidSetting, match=r"wait=.*: must be more than 0 to"):
        seconds("wait", nothing)


def test_seconds_does_not_repeat_a_huge_value_in_its_error():
    with pytest.raises(InvalidSetting) as caught:
        seconds("wait", "9" * 10_000)
    assert len(str(caught.value)) < 200


@given(st.floats(min_value=5e-324, max_value=LONGEST))
def test_seconds_returns_every_allowed_float_unchanged(value):
    assert seconds("wait", value) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (3, 3.0),
        (0.5, 0.5),
        ("100ms", 0.1),
        ("1.5s", 1.5),
        ("2m", 120.0),
        ("1h", 3_600.0),
        ("1d", 86_400.0),
        (" 2 m ", 120.0),
        ("0s", 0.0),
        (".5s", 0.5),
        ("00:00:30", 30.0),
        ("00:00:00.1000000", 0.1),
        ("01:02:03", 3_723.0),
        ("23:59:59", 86_399.0),
        ("1.00:00:00", 86_400.0),
        ("2.03:04:05.5", 183_845.5),
        ("36:00:00", 129_600.0),
    ],
)
def test_parse_reads_what_files_write(text, expected):
    assert parse("wait", text) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "s", "ms", "10", "1 minute", "1w", "5M", "1s2", "1 s s", "m5", "1,5s", "--1s"),
        *("00:30", "1:2:3:4", "::", "a:b:c", "00:00:", ":00:00", "1.:00:00x", "00:00:1e1", "00:00:nan", "0:0:inf"),
        *("00:60:00", "00:00:60", "0.1.2:00:00", "\u0660:\u0660:\u0661", "00:0_1:00"),
        *("1" * 33 + "s", True, False, None, [], {}, b"1s", 1j, timedelta(1)),
    ],
    ids=short,
)
def test_parse_refuses_everything_else_and_shows_what_to_write(text):
    with pytest.raises(InvalidSetting, match=r'write seconds as a number, or "100ms", "1\.5s", "2m"') as caught:
        parse("wait", text)
    assert caught.value.setting == "wait"


@pytest.mark.parametrize("text", ["-00:00:01", "-0.00:00:01", "00:-05:00", "01:-05:00", "00:01:-1"])
def test_parse_never_reads_a_negative_timespan_as_a_positive_one(text):
    with pytest.raises(InvalidSetting):
        seconds("wait", parse("wait", text))


@pytest.mark.parametrize("text", [-1, "-1s", "infs", "nan s", math.nan, math.inf, 10**400, "9" * 31 + "d"], ids=short)
def test_parse_leaves_the_bounds_to_seconds(text):
    with pytest.raises(InvalidSetting):
        seconds("wait", parse("wait", text))


@given(st.text(max_size=40) | st.from_regex(r"[-+.\d_ :a-z]{0,34}"))
def test_parse_returns_a_float_or_says_what_is_wrong(text):
    try:
        found = parse("wait", text)
    except InvalidSetting:
        return
    assert type(found) is float


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(0, 9_999_999))
def test_parse_reads_every_dotnet_timespan(days, hours, minutes, secs, ticks):
    text = f"{days}.{hours:02}:{minutes:02}:{secs:02}.{ticks:07}"
    expected = timedelta(days=days, hours=hours, minutes=minutes, seconds=secs).total_seconds() + ticks / 1e7
    assert parse("wait", text) == pytest.approx(expected)
