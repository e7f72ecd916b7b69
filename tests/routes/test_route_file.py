# SPDX-License-Identifier: MIT
"""Reading routes from files: what may be written, and the line and the words of every error."""
# ruff: noqa: E501 - one wrong file after the other, so that they can be compared

import json
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import yaml as pyyaml
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.errors import MissingExtra, RouteFileError
from redrive.routes import (
    Route,
    RouteSettings,
    from_queue,
    http,
    log,
    match,
    read_routes,
    route,
    sample,
    split,
    timer,
    to_debug,
    to_log,
    to_queue,
    transform,
    ttl,
    webhook,
)
from redrive.routes.route_file import parse_toml, parse_yaml, route_from_json, route_of


def toml(text):
    return parse_toml(textwrap.dedent(text))


def yaml(text):
    return parse_yaml(textwrap.dedent(text))


def error_of(parse, text):
    with pytest.raises(RouteFileError) as caught:
        parse(text)
    assert caught.value.__cause__ is None
    return caught.value


FEW = settings(max_examples=max(1, settings.default.max_examples // 4))
"""For examples that are expensive to make."""


# --- one value, however it is written ---------------------------------------------------------------------------------

IN_PYTHON = (
    route("big", source=http("/orders", keep_headers=("region",)), application="shop", max_attempts=3, max_age=7200)
    | match("body.total > 100")
    | transform("{id: body.id}") >> webhook("https://example.com/hook")
)

IN_TOML = """\
application = "shop"

[routes.big]
source = { kind = "http", path = "/orders", keep_headers = ["region"] }
max_attempts = 3
max_age = "2h"
sender = { kind = "webhook", url = "https://example.com/hook" }

[[routes.big.filters]]
kind = "match"
expression = "body.total > 100"

[[routes.big.filters]]
kind = "transform"
to = "{id: body.id}"
"""

IN_TOML_WITH_A_RECEIVER = """\
application = "shop"

[receivers.orders]
kind = "http"
path = "/orders"
keep_headers = ["region"]

[routes.big]
source = "orders"
filters = [
    { kind = "match", expression = "body.total > 100" },
    { kind = "transform", to = "{id: body.id}" },
]
sender = { kind = "webhook", url = "https://example.com/hook" }
max_attempts = 3
max_age = "02:00:00"
"""

IN_YAML = """\
application: shop
receivers:
  orders: {kind: http, path: /orders, keep_headers: [region]}
routes:
  big:
    source: orders
    max_attempts: 3
    max_age: 120m
    filters:
      - kind: match
        expression: body.total > 100
      - kind: transform
        to: "{id: body.id}"
    sender:
      kind: webhook
      url: https://example.com/hook
"""


@pytest.mark.parametrize(
    ("parse", "text"),
    [(parse_toml, IN_TOML), (parse_toml, IN_TOML_WITH_A_RECEIVER), (parse_yaml, IN_YAML)],
    ids=["toml", "toml-receiver", "yaml"],
)
def test_python_toml_and_yaml_make_one_equal_value(parse, text):
    (made,) = parse(text)
    assert made == IN_PYTHON
    assert hash(made) == hash(IN_PYTHON)
    assert made.to_json() == IN_PYTHON.to_json()


def test_the_name_of_a_file_says_how_it_is_read(tmp_path):
    for name, text in (("r.toml", IN_TOML), ("r.yaml", IN_YAML), ("r.yml", IN_YAML)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert read_routes(tmp_path / name) == [IN_PYTHON]


def test_a_file_without_routes_has_none():
    assert parse_toml("") == parse_yaml("") == parse_yaml("# nothing yet\n") == []


def test_yaml_may_use_what_it_has_named_before():
    first, second = yaml("""\
        routes:
          a: &usual
            source: {kind: timer, every: 5}
            sender: {kind: log}
            max_attempts: 3
          b:
            <<: *usual
            max_attempts: 4
        """)
    assert second == replace(first, name="b", settings=RouteSettings(max_attempts=4))


# --- round trips ------------------------------------------------------------------------------------------------------

NAMES = st.text(st.sampled_from("aZ0_-"), min_size=1, max_size=8)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
SECONDS = st.floats(0.001, 86_400.0)
SOURCES = st.one_of(
    st.builds(
        http, path=st.text(st.sampled_from("az0_.~/"), max_size=9).map("/a{}".format), max_bytes=st.integers(1, 10_000)
    ),
    st.builds(timer, every=SECONDS),
    st.builds(
        from_queue,
        queue=st.text(st.sampled_from("az._/-"), min_size=1, max_size=9),
        delivery=st.sampled_from(["durable", "linked", "direct"]),
        max_waiting=st.none() | st.integers(1, 9),
    ),
)
FILTERS = st.one_of(
    st.builds(match, expression=st.sampled_from(["body.total > 100", "true", "headers.a == 'ü'"])),
    st.builds(sample, rate=st.floats(0.01, 1.0)),
    st.builds(log, text=TEXTS),
    st.builds(ttl, max_age=SECONDS),
    st.builds(split, path=st.just("body.items")),
    st.builds(transform, fields=st.dictionaries(TEXTS, st.just("body.id"), min_size=1, max_size=3)),
)
SENDERS = st.one_of(
    st.builds(to_queue, queue=st.just("big"), delay=st.none() | SECONDS),
    st.builds(to_debug, name=TEXTS),
    st.builds(to_log),
    st.builds(webhook, url=st.just("https://example.com/hook")),
)
SETTINGS = st.builds(
    RouteSettings,
    max_attempts=st.integers(1, 1_000),
    max_age=SECONDS,
    min_delay=st.floats(0.001, 5.0),
    max_delay=st.floats(5.0, 5_000.0),
    quiet_retries=st.integers(0, 100),
    on_exhausted=st.sampled_from([None, "discard"]),
    concurrency=st.integers(1, 1_000),
    timeout=SECONDS,
    breaker_failures=st.integers(1, 10_000),
    probe_after=SECONDS,
)
ROUTES = st.builds(
    Route,
    name=NAMES,
    source=SOURCES,
    filters=st.lists(FILTERS, max_size=4).map(tuple),
    sender=SENDERS,
    application=NAMES,
    settings=SETTINGS,
)


@FEW
@given(ROUTES)
def test_a_stored_route_is_the_route(made):
    assert route_from_json(made.to_json()) == made
    assert route_of(json.loads(made.to_json())) == made
    assert route_from_json(made.to_json()).to_json() == made.to_json()


@FEW
@given(ROUTES)
def test_yaml_reads_what_tables_say(made):
    text = pyyaml.safe_dump({"application": made.application, "routes": {made.name: made.to_table()}})
    assert parse_yaml(text) == [made]


# --- wrong files ------------------------------------------------------------------------------------------------------

GOOD = """\
[routes.a]
source = { kind = "timer", every = 5 }
sender = { kind = "log" }
"""

WRONG_TOML = {
    "no TOML": ("[routes.a]\nsource = \n", 2, ["this is not TOML", "Invalid value"]),
    "an end too early": ("[routes.a]\nsource = [\n", 3, ["this is not TOML"]),
    "two routes of one name": (GOOD + GOOD, 4, ["this is not TOML", "Cannot declare", "routes", "'a'", "twice"]),
    "an unknown section": ("[route.a]\n", 1, ["no setting 'route'", "application, receivers, routes", "Did you mean 'routes'?"]),
    "an unknown setting": (GOOD + "max_atempts = 3\n", 4, ["no setting 'max_atempts'", "Did you mean 'max_attempts'?"]),
    "an application that is no name": ('application = "my shop"\n' + GOOD, 1, ["application='my shop'", "must be 1 to 60 letters, digits, '_' and '-'"]),
    "an application of another type": ("application = 7\n" + GOOD, 1, ["application=7", "must be 1 to 60 letters"]),
    "a name that is none": (GOOD.replace("routes.a", 'routes."a b"'), 1, ["name='a b'", "must be 1 to 60 letters"]),
    "routes that are no table": ("routes = 5\n", 1, ["routes", "must be a table of tables", "[routes.some-name]"]),
    "a route that is no table": ('[routes]\na = "x"\n', 1, ["routes", "must be a table of tables"]),
    "receivers that are no table": ('receivers = ["x"]\n', 1, ["receivers", "must be a table of tables"]),
    "no source": ('[routes.a]\nsender = { kind = "log" }\n', 1, ["route 'a' needs a source"]),
    "no sender": ('[routes.a]\nsource = { kind = "timer", every = 5 }\n', 1, ["route 'a' needs a sender"]),
    "a receiver that is not there": (GOOD.replace('{ kind = "timer", every = 5 }', '"order"') + '[receivers.orders]\nkind = "timer"\nevery = 5\n', 2, ["no receiver 'order'", "there are: orders"]),
    "no receivers at all": (GOOD.replace('{ kind = "timer", every = 5 }', '"orders"'), 2, ["no receiver 'orders'", "write [receivers.orders]"]),
    "a source of another type": (GOOD.replace('{ kind = "timer", every = 5 }', "5"), 2, ["must be a table with a kind, one of:", "http"]),
    "a source without a kind": (GOOD.replace('kind = "timer", ', ""), 2, ["must be a table with a kind, one of:"]),
    "a source of an unknown kind": (GOOD.replace('"timer"', '"timr"'), 2, ["kind='timr'", "is no kind of receivers", "did you mean 'timer'?", "There are: debug, http"]),
    "a sender of an unknown kind": (GOOD.replace('"log"', '"loog"'), 3, ["is no kind of senders", "did you mean 'log'?"]),
    "a sender that is a filter": (GOOD.replace('"log"', '"match"'), 3, ["is no kind of senders"]),
    "a setting that is missing": (GOOD.replace(", every = 5", ""), 2, ["every=None", "must be given for 'timer'"]),
    "a part's unknown setting": (GOOD.replace("every", "evry"), 2, ["'timer' has no setting 'evry'", "Did you mean 'every'?"]),
    "a receiver's wrong setting": ('[receivers.r]\nkind = "http"\npath = "orders"\n', 3, ["path='orders'", "must begin with '/'"]),
    "an unknown filter": (GOOD + 'filters = [\n  { kind = "log" },\n  { kind = "mach", expression = "true" },\n]\n', 6, ["is no kind of filters", "did you mean 'match'?"]),
    "an unknown filter in a table": (GOOD + '[[routes.a.filters]]\nkind = "log"\n[[routes.a.filters]]\nexpression = "true"\nkind = "mach"\n', 8, ["did you mean 'match'?"]),
    "an expression that does not parse": (GOOD + '[[routes.a.filters]]\nkind = "match"\nexpression = "body.total >"\n', 4, ["the expression 'body.total >' cannot be read"]),
    "a JMESPath that does not parse": (GOOD + '[[routes.a.filters]]\nkind = "split"\npath = "body.["\n', 4, ["body.["]),
    "filters that are no list": (GOOD + 'filters = { kind = "log" }\n', 4, ["must be a list of filters", "filters = [{ kind = 'match', ... }]"]),
    "a filter that is no table": (GOOD + 'filters = ["log"]\n', 4, ["must be a table with a kind"]),
    "a whole number that is a text": (GOOD + 'max_attempts = "3"\n', 4, ["max_attempts='3'", "whole number"]),
    "a whole number that is true": (GOOD + "max_attempts = true\n", 4, ["max_attempts=True"]),
    "a whole number that is too large": (GOOD + "max_attempts = 1001\n", 4, ["max_attempts=1001", "1 to 1,000"]),
    "a length of time in no unit": (GOOD + 'timeout = "5 parsecs"\n', 4, ["timeout='5 parsecs'", '"1.5s"']),
    "a length of time below zero": (GOOD + "timeout = -1\n", 4, ["timeout=-1", "must be more than 0"]),
    "a length of time without end": (GOOD + "timeout = inf\n", 4, ["timeout=inf"]),
    "a length of time that is a date": (GOOD + "timeout = 2026-01-01\n", 4, ["timeout="]),
    "a word that is none of them": (GOOD + 'ordering = "random"\n', 4, ["ordering='random'", "must be one of: none, key, strict"]),
    "a word that is a list": (GOOD + "ordering = []\n", 4, ["ordering=[]", "must be one of"]),
    "delays in the wrong order": (GOOD + "min_delay = 10\nmax_delay = 5\n", 5, ["max_delay", "must be at least min_delay (10 s)"]),
    "halting without an order": (GOOD + 'on_dead = "halt"\n', 4, ["on_dead", "needs ordering = 'key' or 'strict'"]),
    "a nack that nobody hears": (GOOD + 'on_exhausted = "nack"\n', 4, ["'nack' needs delivery = 'linked'"]),
    "an order without a key": (GOOD + 'ordering = "key"\n', 4, ["'key' needs the source's order_key, such as"]),
    "an order in memory": (GOOD.replace("every = 5", 'every = 5, delivery = "direct"') + 'ordering = "strict"\n', 4, ["needs delivery = 'durable'"]),
    "dead letters in memory": (GOOD.replace("every = 5", 'every = 5, delivery = "direct"') + 'on_exhausted = "dead_letter"\n', 4, ["'dead_letter' needs delivery = 'durable' or 'linked'"]),
    "a source that cannot hold": (GOOD.replace("every = 5", 'every = 5, delivery = "linked"'), 2, ["delivery", "must be durable or direct"]),
    "a circle": (
        '[routes.a]\nsource = { kind = "queue", queue = "x" }\nsender = { kind = "queue", queue = "y" }\n[routes.b]\nsource = { kind = "queue", queue = "y" }\nsender = { kind = "queue", queue = "x" }\n',
        6, ["routes 'a', 'b' make a circle: x -> y -> x", "end one of them elsewhere"],
    ),
    "a circle of one": ('[routes.a]\nsource = { kind = "queue", queue = "x" }\nsender = { kind = "queue", queue = "x" }\n', 3, ["make a circle: x -> x"]),
    "one source, two settings": (
        '[routes.a]\nsource = { kind = "http", path = "/x" }\nsender = { kind = "log" }\n[routes.b]\nsource = { kind = "http", path = "/x", max_bytes = 5 }\nsender = { kind = "log" }\n',
        5, ["the same source as route 'a' with another max_bytes", "give both the same settings"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "words"), WRONG_TOML.values(), ids=WRONG_TOML)
def test_a_wrong_file_in_toml_is_refused_with_its_line_and_what_to_write(text, line, words):
    error = error_of(parse_toml, text)
    assert [word for word in words if word not in error.problem] == [], error.problem
    assert error.line == line, error.problem


IN_GOOD_YAML = """\
routes:
  a:
    source: {kind: timer, every: 5}
    sender: {kind: log}
"""

WRONG_YAML = {
    "no YAML": ("routes:\n  a: [\n", 3, ["this is not YAML"]),
    "a tab": ("routes:\n\ta: 1\n", 2, ["this is not YAML"]),
    "a character that is forbidden": ("routes:\n  a: \x01\n", 2, ["this is not YAML"]),
    "two documents": ("a: 1\n---\nb: 2\n", 2, ["this is not YAML"]),
    "an object": ("routes: !!python/object/apply:os.getcwd []\n", 1, ["this is not YAML"]),
    "a number that is none": ('routes: !!int ""\n', 1, ["this is not YAML"]),
    "a flag that is none": ("routes: !!bool x\n", 1, ["this is not YAML"]),
    "a time that is none": ("routes: !!timestamp x\n", 1, ["this is not YAML"]),
    "a date that is none": ("routes: 2026-02-31\n", 1, ["this is not YAML"]),
    "a list": ("- routes\n", 1, ["must be a table with 'routes'"]),
    "a text": ("routes\n", 1, ["must be a table with 'routes'"]),
    "routes that are nothing": ("routes:\n", 1, ["must be a table of tables"]),
    "two routes of one name": (IN_GOOD_YAML + IN_GOOD_YAML.partition("\n")[2], 5, ["'a'", "twice", "line 2"]),
    "two settings of one name": (IN_GOOD_YAML + "    timeout: 1\n    timeout: 2\n", 6, ["'timeout'", "twice"]),
    "a name that is a number": (IN_GOOD_YAML.replace("  a:", "  1:"), 2, ["1", "text", "quotes"]),
    "a name that is a flag": (IN_GOOD_YAML.replace("  a:", "  on:"), 2, ["on", "text", "quotes"]),
    "a setting that is a number": (IN_GOOD_YAML + "    7: 1\n", 5, ["7", "text", "quotes"]),
    "a part's setting that is nothing": (IN_GOOD_YAML.replace("every: 5", "every: 5, ~: 1"), 3, ["text", "quotes"]),
    "a key that is a list": ("? [a, b]\n: 1\n", 1, ["text"]),
    "an unknown filter": (IN_GOOD_YAML + "    filters:\n    - kind: log\n    - kind: mach\n", 7, ["did you mean 'match'?"]),
    "an expression that does not parse": (IN_GOOD_YAML + "    filters:\n    - kind: match\n      expression: 'body.total >'\n", 6, ["the expression 'body.total >' cannot be read"]),
    "a setting of a part": (IN_GOOD_YAML.replace("{kind: log}", "\n      kind: queue\n      queue: a b"), 6, ["queue='a b'"]),
    "nothing where something must be": (IN_GOOD_YAML + "    timeout:\n", 5, ["timeout=None"]),
    "not a number": (IN_GOOD_YAML + "    timeout: .nan\n", 5, ["timeout=nan"]),
    "half a character": (IN_GOOD_YAML.replace("kind: log", 'kind: debug, name: "\\ud800"'), 4, ["name="]),
    "something within itself": ("routes: &a\n  x: *a\n", 1, ["within itself"]),
    "a list within itself": ("routes: &a [*a]\n", 1, ["within itself"]),
    "laughter": ("a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)), None, ["too large"]),
    "a circle": (
        "routes:\n  a:\n    source: {kind: queue, queue: x}\n    sender: {kind: queue, queue: y}\n  b:\n    source: {kind: queue, queue: y}\n    sender: {kind: queue, queue: x}\n",
        7, ["routes 'a', 'b' make a circle: x -> y -> x"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "words"), WRONG_YAML.values(), ids=WRONG_YAML)
def test_a_wrong_file_in_yaml_is_refused_with_its_line_and_what_to_write(text, line, words):
    error = error_of(parse_yaml, text)
    assert [word for word in words if word not in error.problem] == [], error.problem
    assert line in (None, error.line), error.problem
    assert len(error.problem) < 1_000
    assert "\n" not in error.problem


def test_an_error_names_the_file_and_the_line(tmp_path):
    path = tmp_path / "routes.toml"
    path.write_text(GOOD + "timeout = 0\n", encoding="utf-8")
    error = error_of(read_routes, path)
    assert str(error).startswith(f"{path}, line 4: timeout=0")
    assert str(error_of(parse_toml, "x")).startswith("routes, line 1: ")


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"a = \x80"])
@pytest.mark.parametrize("suffix", [".toml", ".yaml"])
def test_a_file_that_cannot_be_read(tmp_path, content, suffix):
    path = tmp_path / f"routes{suffix}"
    if content is not None:
        path.write_bytes(content)
    error = error_of(read_routes, path)
    assert (error.source, error.line) == (path, 1)
    assert "it cannot be read" in error.problem


def test_a_directory_cannot_be_read(tmp_path):
    assert "it cannot be read" in error_of(read_routes, tmp_path).problem


def test_yaml_needs_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(MissingExtra, match=r"pip install 'redrive\[routes\]'"):
        parse_yaml(IN_YAML)


# --- anything at all --------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        *"[]{}=:,-#\n\t\"'&*!|>?.%@`~<",
        "\n  ", "\n    ", "routes", "receivers", "application", "[routes.a]\n", "routes:\n  a:\n", "kind", "source", "sender", "filters",
        "match", "timer", "log", "queue", "expression", "max_attempts", "true", "null", "1", "2026-01-01", ".inf", "!!int", "<<", "&a", "*a", " ", "\x00", "\ud800", "ü",
        'source = { kind = "timer", every = 5 }\n', 'sender = { kind = "log" }\n', "    source: {kind: timer, every: 5}\n", "    sender: {kind: log}\n",
    ]
)  # fmt: skip


@given(st.lists(WORDS, max_size=25).map("".join))
@pytest.mark.parametrize("parse", [parse_toml, parse_yaml])
def test_garbage_is_refused_with_a_line(parse, text):
    try:
        made = parse(text)
    except RouteFileError as error:
        refused = error
    else:
        refused = None
        assert all(isinstance(each, Route) for each in made)
    assert refused is None or 1 <= refused.line <= len(text.splitlines()) + 2


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=4) | st.sampled_from(["timer", "log", "match", "durable", "5s", "body.a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kind", "source", "sender", "filters", "every", "expression", "events", "fields", "labels", "max_age", "ordering", "x", ""]), inner, max_size=5),
    max_leaves=6,
)  # fmt: skip


@FEW
@given(
    st.dictionaries(
        st.sampled_from(["name", "application", "source", "sender", "filters", "timeout", "ordering", "x"]), VALUES
    )
)
def test_any_json_values_are_a_route_or_refused(table):
    try:
        made = route_of(table)
    except RouteFileError as error:
        refused = str(error)
    else:
        refused = "-"
        assert route_from_json(made.to_json()) == made
    assert refused


@pytest.mark.parametrize("kind", ["debug", "file", "log", "nats", "queue", "redis", "topic", "webhook"])
@FEW
@given(
    table=st.dictionaries(
        st.sampled_from(["name", "queue", "topic", "url", "path", "subject", "stream", "delay", "headers", "method"]),
        VALUES,
    )
)
def test_any_settings_of_a_sender_are_a_route_or_refused(kind, table):
    try:
        made = route_of({"name": "a", "source": {"kind": "timer", "every": 5}, "sender": {**table, "kind": kind}})
    except RouteFileError as error:
        refused = str(error)
    else:
        refused = "-"
        assert route_from_json(made.to_json()) == made
    assert refused


@pytest.mark.parametrize("text", ["[]", "5", "null", '"x"', "{}", '{"name": ["x"]}', '{"name": {"x": 1}}', "no JSON"])
def test_a_stored_text_that_is_no_route_is_refused(text):
    with pytest.raises(RouteFileError):
        route_from_json(text)


def test_reading_is_pure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parse_toml(IN_TOML)
    assert list(Path().iterdir()) == []
