# SPDX-License-Identifier: MIT
"""The kinds of receivers, filters and senders: our own, and those that packages add."""

import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest

from redrive.errors import InvalidSetting, RouteFileError, UsageError
from redrive.parts.kinds import entry_points_of
from redrive.routes import kinds, route, timer
from redrive.routes.parts import (
    EventFilter,
    EventReceiver,
    EventSender,
    OutsideFilter,
    RoutePart,
    TextSetting,
    setting,
)
from redrive.routes.route_file import parse_toml, route_from_json

CLASSES = {
    "receivers": EventReceiver,
    "filters": (EventFilter, OutsideFilter),
    "senders": EventSender,
}

ROUTE = '[routes.a]\nsource = { kind = "timer", every = 5 }\nsender = { kind = "log" }\n'

PACKAGE = """\
from dataclasses import dataclass
from typing import ClassVar

from redrive.routes import EventFilter, EventSender, setting
from redrive.routes.parts import TextSetting


@dataclass(frozen=True, slots=True)
class Shout(EventFilter):
    kind: ClassVar[str] = "shout"
    mark: str = setting(TextSetting(), "what is added", "!")

    def check(self):
        if len(self.mark) > 3:
            raise ValueError("that is too loud")

    def apply(self, message, leg):
        return [message]


@dataclass(frozen=True, slots=True)
class Log(EventSender):
    kind: ClassVar[str] = "log"


no_class = 5
"""

ENTRY_POINTS = """\
[redrive.filters]
shout = acme_routes:Shout
odd = acme_routes:no_class
sender = acme_routes:Log
gone = acme_routes:Gone
missing = acme_nowhere:Shout

[redrive.senders]
log = acme_routes:Log
"""


@pytest.fixture
def acme(tmp_path, monkeypatch):
    """A package with kinds of its own is installed."""
    (tmp_path / "acme_routes.py").write_text(PACKAGE)
    info = tmp_path / "acme_routes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-routes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    entry_points_of.cache_clear()
    yield
    entry_points_of.cache_clear()
    sys.modules.pop("acme_routes", None)


@pytest.mark.parametrize("group", CLASSES)
def test_every_kind_of_our_own_is_a_part_by_that_name(group):
    for kind in kinds.kinds(group):
        found = kinds.class_of(group, kind)
        assert issubclass(found, CLASSES[group])
        assert found.kind == kind


@pytest.mark.parametrize("group", CLASSES)
def test_an_unknown_kind_is_refused_with_those_there_are(group):
    with pytest.raises(InvalidSetting) as caught:
        kinds.class_of(group, "lug")
    assert f"is no kind of {group}" in str(caught.value)
    assert all(kind in str(caught.value) for kind in kinds.kinds(group))


@pytest.mark.parametrize("table", [None, 5, "log", [], {}, {"kind": 5}, {"kind": None}, {"Kind": "log"}])
@pytest.mark.parametrize("make", [kinds.receiver_of, kinds.filter_of, kinds.sender_of])
def test_a_table_without_a_kind_is_refused(make, table):
    with pytest.raises(InvalidSetting, match="must be a table with a kind, one of:"):
        make(table)


@pytest.mark.usefixtures("acme")
def test_a_package_adds_a_kind():
    assert "shout" in kinds.kinds("filters")
    made = kinds.filter_of({"kind": "shout", "mark": "?"})
    assert (type(made).__name__, made.mark) == ("Shout", "?")
    (route,) = parse_toml(f'{ROUTE}filters = [{{ kind = "shout" }}]\n')
    assert route.filters == (kinds.filter_of({"kind": "shout"}),)


@pytest.mark.usefixtures("acme")
def test_no_package_can_take_the_place_of_a_kind_of_our_own():
    assert kinds.class_of("senders", "log").__module__ == "redrive.routes.senders.log"


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("odd", ["'odd'", "redrive.filters", "is 5", "must be a class of EventFilter or OutsideFilter"]),
        ("sender", ["'sender'", "must be a class of EventFilter or OutsideFilter"]),
        ("gone", ["'gone'", "cannot be loaded", "Gone"]),
        ("missing", ["'missing'", "cannot be loaded", "acme_nowhere"]),
    ],
)
def test_what_is_no_part_of_a_route_is_refused_by_its_name(kind, words):
    with pytest.raises(UsageError) as caught:
        kinds.class_of("filters", kind)
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('{ kind = "missing" }', "acme_nowhere"),
        ('{ kind = "shout", mark = "!!!!" }', "ValueError: that is too loud"),
        ('{ kind = "shot" }', "did you mean 'shout'?"),
    ],
)
def test_whatever_a_package_raises_a_file_gets_its_line(table, words):
    with pytest.raises(RouteFileError) as caught:
        parse_toml(f"{ROUTE}filters = [{table}]\n")
    assert caught.value.line == 4
    assert words in caught.value.problem


# --- kinds of a program


@dataclass(frozen=True, slots=True)
class Whisper(EventSender):
    kind: ClassVar[str] = "whisper"
    to: str = setting(TextSetting(), "who hears it", "you")


@pytest.fixture
def program(monkeypatch):
    """The program may add kinds, and other tests do not see them."""
    for group in kinds._groups.values():
        monkeypatch.setattr(group, "added", dict(group.added))


@pytest.mark.usefixtures("program")
def test_a_program_adds_a_kind_of_its_own():
    assert kinds.add_kind(Whisper) is Whisper
    assert "whisper" in kinds.kinds("senders")
    assert kinds.sender_of({"kind": "whisper", "to": "me"}) == Whisper("me")
    made = route("a", source=timer(every=5)) >> Whisper("me")
    assert route_from_json(made.to_json()) == made


def test_what_a_program_has_not_added_cannot_be_read():
    made = route("a", source=timer(every=5)) >> Whisper("me")
    with pytest.raises(RouteFileError, match="is no kind of senders"):
        route_from_json(made.to_json())


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("kind", ["", None, "log"])
def test_a_kind_needs_a_name_that_is_not_our_own(kind):
    with pytest.raises(UsageError):
        kinds.add_kind(type("Odd", (Whisper,), {"kind": kind}))


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("part", [RoutePart, int])
def test_what_is_no_part_cannot_be_added(part):
    with pytest.raises(UsageError, match="must be an EventReceiver"):
        kinds.add_kind(part)
