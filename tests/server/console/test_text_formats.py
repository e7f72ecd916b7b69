# SPDX-License-Identifier: MIT
"""Numbers, times and sizes as people read them."""

from datetime import UTC, datetime, timedelta

import pytest

from redrive.server.console import text_formats

NOW = datetime(2026, 11, 16, 11, 0, tzinfo=UTC)
BERLIN = text_formats.zone_of("Europe/Berlin")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.25, "250 ms"),
        (2, "2 s"),
        (70, "1 min 10 s"),
        (2_820, "47 min"),
        (7_200, "2 h"),
        (9_000, "2 h 30 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_length_of_time_has_its_two_largest_units(seconds, said):
    assert text_formats.length(seconds) == said


@pytest.mark.parametrize(("seconds", "said"), [(0, "now"), (2, "2 s ago"), (7_300, "2 h ago"), (-300, "in 5 min")])
def test_how_long_ago_a_time_was(seconds, said):
    assert text_formats.ago(NOW - timedelta(seconds=seconds), NOW) == said


@pytest.mark.parametrize(("days", "said"), [(0, "12:00"), (3, "Fri 12:00"), (30, "17 Oct"), (400, "12 Oct 2025")])
def test_a_moment_is_as_short_as_it_can_be(days, said):
    assert text_formats.moment(NOW - timedelta(days=days), NOW, BERLIN) == said


def test_a_full_time_names_its_zone():
    assert text_formats.full_time(NOW, BERLIN) == "16 Nov 2026 12:00:00 CET"
    assert text_formats.full_time(NOW, text_formats.zone_of("America/Sao_Paulo")) == "16 Nov 2026 08:00:00 UTC-3"


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../../etc/passwd", "/etc/passwd", "\u202e", "a" * 5_000])
def test_a_zone_that_is_not_known_is_utc(name):
    assert text_formats.zone_of(name) is UTC


@pytest.mark.parametrize(
    ("number", "said"), [(7, "7"), (6_204, "6.2k"), (1_000, "1k"), (150_000, "150k"), (2_500_000, "2.5M")]
)
def test_a_number_in_four_letters(number, said):
    assert text_formats.short_count(number) == said


@pytest.mark.parametrize(
    ("number", "said"), [(1, "1 byte"), (900, "900 bytes"), (2_150, "2.1 KB"), (1_048_576, "1 MB")]
)
def test_a_size_has_its_unit(number, said):
    assert text_formats.size(number) == said


def test_words_around_numbers():
    assert text_formats.many(1, "message") == "1 message"
    assert text_formats.many(4_904, "message") == "4,904 messages"
    assert text_formats.in_words(5) == "Five"
    assert text_formats.joined(["a", "b", "c"]) == "a, b and c"
    assert text_formats.initials("ana.ruiz") == "AR"
    assert text_formats.shortened_id("7c1e0000000000000000b04d") == "7c1e…b04d"


def test_what_hides_or_turns_letters_is_spelled_out():
    assert text_formats.visible("a\u202eb\x1b[31m") == "a\\u202eb\\x1b[31m"
