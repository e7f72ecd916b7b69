# SPDX-License-Identifier: MIT
"""The route as a value, and the one line that makes it."""

from dataclasses import FrozenInstanceError, fields
from datetime import timedelta
from typing import get_type_hints

import pytest

from redrive.errors import InvalidRoute, InvalidSetting, UnknownSetting
from redrive.routes import (
    Route,
    RouteOptions,
    RouteSettings,
    call,
    from_queue,
    from_topic,
    http,
    log,
    match,
    route,
    sample,
    timer,
    to_log,
    to_queue,
    webhook,
)

SOURCE = http("/orders")
SENDER = to_queue("big")


def settings_of(**settings):
    return (route("a", source=SOURCE, **settings) >> SENDER).settings


def test_one_line_is_the_route():
    made = route("a", source=SOURCE, application="shop", max_attempts=3) | match("true") | log("x") >> SENDER
    assert made == Route(
        name="a",
        source=SOURCE,
        filters=(match("true"), log("x")),
        sender=SENDER,
        application="shop",
        settings=RouteSettings(max_attempts=3),
    )


def test_a_route_needs_no_filter_and_may_have_one_that_reaches_outside():
    assert (route("a", source=SOURCE) >> SENDER).filters == ()
    outside = call("tests.routes.filters.functions:later")
    assert (route("a", source=SOURCE) | outside >> SENDER).filters == (outside,)
    assert (route("a", source=SOURCE) | match("true") | outside >> SENDER).filters == (match("true"), outside)


def test_a_draft_can_be_continued_twice():
    draft = route("a", source=SOURCE) | match("true")
    assert (draft | log("x") >> SENDER).filters == (match("true"), log("x"))
    assert (draft >> SENDER).filters == (match("true"),)


def test_a_route_is_a_value():
    made = route("a", source=SOURCE) | sample(0.5) >> SENDER
    assert {made, route("a", source=http("/orders")) | sample(0.5) >> to_queue("big")} == {made}
    with pytest.raises(FrozenInstanceError):
        made.name = "b"


def test_filters_in_a_list_are_the_same_route():
    made = Route(name="a", source=SOURCE, filters=[log("x")], sender=SENDER)
    assert made == (route("a", source=SOURCE) | log("x") >> SENDER)
    hash(made)


def test_it_is_shown_as_the_line_that_makes_it():
    made = route("a", source=SOURCE) | match("body.total > 100") | sample(0.5) >> webhook("https://example.com/hook")
    assert str(made) == (
        "route('a', source=http(path='/orders')) | match(expression='body.total > 100') | sample(rate=0.5)"
        " >> webhook(url='https://example.com/hook')"
    )


def test_its_json_does_not_depend_on_the_order_in_which_it_was_written():
    assert settings_of(timeout=5, max_attempts=3) == settings_of(max_attempts=3, timeout=5)
    one = route("a", source=SOURCE, timeout=5, max_attempts=3) >> SENDER
    other = route("a", source=SOURCE, max_attempts=3, timeout=timedelta(seconds=5)) >> SENDER
    assert one.to_json() == other.to_json()


def test_a_table_has_only_what_was_stated():
    made = route("a", source=SOURCE, timeout=5, max_attempts=8) >> SENDER
    assert made.to_table() == {
        "source": {"kind": "http", "path": "/orders"},
        "filters": [],
        "sender": {"kind": "queue", "queue": "big"},
        "timeout": 5.0,
    }


def test_the_options_for_type_checkers_are_the_settings():
    assert list(get_type_hints(RouteOptions)) == [each.name for each in fields(RouteSettings)]


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a/b", "ü", "a" * 61, 5, None, "a\n"])
@pytest.mark.parametrize("what", ["name", "application"])
def test_names_have_letters_digits_and_little_else(what, name):
    with pytest.raises(InvalidSetting, match=f"{what}=.*must be 1 to 60 letters"):
        Route(**{"name": "a", "source": SOURCE, "sender": SENDER, what: name})


@pytest.mark.parametrize(
    ("make", "part", "words"),
    [
        (lambda: route("a", source="/orders") >> SENDER, "source", "'/orders' is no receiver, such as http('/orders')"),
        (lambda: route("a", source=SENDER) >> SENDER, "source", "is no receiver"),
        (lambda: (route("a", source=SOURCE) | SENDER) >> SENDER, "filters.1", "is no filter, such as match("),
        (lambda: route("a", source=SOURCE) | match("true") | SOURCE | log("x") >> SENDER, "filters.2", "is no filter"),
        (lambda: route("a", source=SOURCE) >> match("true"), "sender", "is no sender, such as webhook("),
        (lambda: route("a", source=SOURCE) | match("true") >> log("x"), "sender", "is no sender"),
        (lambda: route("a", source=SOURCE) >> "big", "sender", "'big' is no sender"),
    ],
)
def test_a_part_in_the_wrong_place_is_refused(make, part, words):
    with pytest.raises(InvalidRoute) as caught:
        make()
    assert caught.value.part == part
    assert words in caught.value.problem
    assert str(caught.value).startswith(f"route 'a', {part}: ")


def test_a_setting_that_is_none_is_refused_with_the_one_that_was_meant():
    with pytest.raises(UnknownSetting, match="Did you mean 'max_attempts'"):
        route("a", source=SOURCE, max_atempts=3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_attempts": 0}, "max_attempts=0"),
        ({"max_attempts": 1.5}, "max_attempts=1.5"),
        ({"timeout": "5s"}, "write 5: texts are for files"),
        ({"timeout": None}, "timeout=None"),
        ({"min_delay": 700}, "max_delay=600.0: must be at least min_delay (700 s)"),
        ({"on_dead": "halt"}, "needs ordering = 'key' or 'strict'"),
        ({"on_exhausted": "forget"}, "must be one of: dead_letter, nack, discard"),
    ],
)
def test_a_wrong_setting_is_refused(settings, words):
    with pytest.raises(InvalidSetting) as caught:
        route("a", source=SOURCE, **settings)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("source", "settings", "part"),
    [
        (SOURCE, {"on_exhausted": "nack"}, "on_exhausted"),
        (http("/x", delivery="direct"), {"on_exhausted": "nack"}, "on_exhausted"),
        (http("/x", delivery="direct"), {"on_exhausted": "dead_letter"}, "on_exhausted"),
        (http("/x", delivery="direct"), {"ordering": "strict"}, "ordering"),
        (http("/x", delivery="linked"), {"ordering": "key"}, "ordering"),
        (SOURCE, {"ordering": "key"}, "ordering"),
        (http("/x", order_key="body.id"), {"ordering": "strict"}, "ordering"),
        (from_topic("t"), {"ordering": "strict"}, "ordering"),
    ],
)
def test_what_makes_no_sense_together_is_refused(source, settings, part):
    with pytest.raises(InvalidRoute) as caught:
        route("a", source=source, **settings) >> SENDER
    assert caught.value.part == part


@pytest.mark.parametrize(
    ("source", "settings"),
    [
        (http("/x", delivery="linked"), {"on_exhausted": "nack"}),
        (http("/x", delivery="linked"), {"on_exhausted": "dead_letter"}),
        (http("/x", delivery="direct"), {"on_exhausted": "discard"}),
        (http("/x", order_key="body.id"), {"ordering": "key", "on_dead": "halt"}),
        (from_topic("t"), {"ordering": "key"}),
        (from_queue("q"), {"ordering": "key"}),
        (timer(every=5), {"ordering": "strict"}),
    ],
)
def test_what_makes_sense_is_not(source, settings):
    assert (route("a", source=source, **settings) >> to_log()).source == source


@pytest.mark.parametrize(
    ("delivery", "expected"), [("durable", "dead_letter"), ("linked", "dead_letter"), ("direct", "discard")]
)
def test_what_becomes_of_a_leg_after_its_last_attempt_if_nobody_says(delivery, expected):
    assert (route("a", source=http("/x", delivery=delivery)) >> SENDER).on_exhausted == expected
    assert (
        route("a", source=http("/x", delivery=delivery), on_exhausted="discard") >> SENDER
    ).on_exhausted == "discard"
