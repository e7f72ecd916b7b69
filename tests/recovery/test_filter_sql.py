# SPDX-License-Identifier: MIT
"""Filters as the engines select by them: the same messages that ``Filter.matches`` says, whatever is asked for."""

import asyncio
from datetime import UTC, datetime, timedelta
from operator import itemgetter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redrive.broker import Message
from redrive.engines.sql.recovery.ledger import SqlLedger
from redrive.engines.sql.script import Many, Sql
from redrive.recovery import Filter, Order, Outcome, Place, Status
from redrive.recovery.arrivals import Arrival
from redrive.recovery.failure_formats import Failure
from redrive.recovery.filter import FailureFacts
from redrive.recovery.fingerprint import Group, group_id
from redrive.testing import ManualClock
from tests.conformance.homes import PostgresHome, SqliteHome

EXAMPLES = settings().max_examples
"""What the profile asks for; each example is a whole database here, so less will do."""

THEN = datetime(2026, 1, 4, tzinfo=UTC)
words = st.sampled_from(["abc", "ABC", "aBÉ", "é", "a%b", "a_b", "a\\b", "it's", "?", "ß 1"])
parts_of_words = st.sampled_from(["bc", "BC", "É", "é", "%", "_", "\\", "'", "?", "tenant: a", "TENANT", "a\nb", "303"])
names = st.sampled_from(
    ["a", "A", "a.b", "A.b", "a.b.A", "b", "é.a", "a%", "a_", "aXb", "a\\b", "shop.a.b", ".b", "b."]
)
patterns = names | names.map(lambda name: f"{name}*")
bodies = st.sampled_from([b"", b"abc", "É é ß".encode(), b"\0abc", b"\xff\xfeAbC", b"a%b_c", b'{"a": "B"}'])
queues = st.sampled_from(["a", "A", "b", "a/b", "é"])
groups = st.sampled_from(["g1", "g2", "g3"])
header_names = st.sampled_from(["tenant", "Á", 'a "b', "c\\d", "e:f"])
header_values = st.sampled_from(
    [0, 7, -1, 2**70, 1.5, 1e17, True, False, None, "7", "true", "null", "", "a\0b\0", "\\u0000"]
)
asked_values = words | st.sampled_from(
    [
        "7",
        "-1",
        "1180591620717411303424",
        "1.5",
        "1e+17",
        "true",
        "false",
        "null",
        "a\ufffdb\ufffd",
        "\\u0000",
        "*",
        "a*",
    ]
)


@st.composite
def stored(draw, number):
    """Draw a failed message, with everything that a filter asks about."""
    return {
        "id": f"{number:032x}",
        "message_id": draw(st.sampled_from(["m1", "m2", "M1"])),
        "queue": draw(queues),
        "status": draw(st.sampled_from(Status)),
        "type": draw(names),
        "exception": draw(names | st.just("")),
        "said": draw(words),
        "headers": draw(st.dictionaries(header_names, words | header_values, max_size=2)),
        "body": draw(bodies),
        "at": THEN + timedelta(seconds=draw(st.integers(0, 2))),
        "attempts": draw(st.integers(1, 4)),
        "group": draw(groups),
        "more": draw(st.none() | groups),
        "source": draw(queues),
        "host": draw(names | st.just("")),
        "reason": draw(st.sampled_from(["Poison", "poison", "Poison.X", ""])),
        "parts": draw(st.dictionaries(st.integers(1, 2), st.sampled_from(Outcome), max_size=2)),
    }


@st.composite
def chosen(draw):
    """Draw a filter that often finds something."""
    kinds = st.sampled_from(["exception", "said"])
    asked = {
        "status": st.frozensets(st.sampled_from(Status)),
        "queues": st.lists(queues, max_size=2),
        "groups": st.lists(st.builds(group_id, kinds, groups), max_size=3),
        "types": st.lists(patterns, max_size=3),
        "exceptions": st.lists(patterns, max_size=3),
        "text": words | parts_of_words,
        "failed_from": st.integers(0, 1).map(lambda s: THEN + timedelta(seconds=s)),
        "failed_until": st.integers(2, 3).map(lambda s: THEN + timedelta(seconds=s)),
        "attempts_min": st.integers(0, 2),
        "attempts_max": st.integers(2, 5),
        "ids": st.lists(st.integers(0, 7).map(lambda number: f"{number:032x}"), max_size=3),
        "message_ids": st.lists(st.sampled_from(["m1", "m2", "M1"]), max_size=2),
        "sources": st.lists(queues, max_size=2),
        "hosts": st.lists(patterns, max_size=2),
        "reasons": st.lists(st.sampled_from(["Poison", "Poison*", "*", "x"]), max_size=2),
        "headers": st.dictionaries(
            header_names, st.lists(asked_values, min_size=1, max_size=2), min_size=1, max_size=2
        ),
        "operation": st.integers(1, 3),
    }
    names_of = draw(st.lists(st.sampled_from(sorted(asked)), max_size=3, unique=True))
    given_ = {"status": "any"} | {name: draw(asked[name]) for name in names_of}
    if "headers" in given_:
        given_["queues"] = given_.get("queues") or ["a", "A", "b", "a/b", "é"]
    if "operation" in given_:
        given_["outcomes"] = draw(st.lists(st.sampled_from([each.word for each in Outcome]), max_size=4))
    return Filter(**given_)


worlds = st.integers(1, 6).flatmap(lambda size: st.tuples(*(stored(number) for number in range(size))))
asks = st.lists(chosen(), min_size=5, max_size=12)


def facts_of(each):
    """Return what a filter is told about a message, from what was stored."""
    texts = [each["said"], *(f"{name}: {value}" for name, value in each["headers"].items())]
    more = [] if each["more"] is None else [group_id("said", each["more"])]
    return FailureFacts(
        id=each["id"],
        message_id=each["message_id"],
        status=each["status"],
        queue=each["queue"],
        failed_at=each["at"],
        attempts=each["attempts"],
        message_type=each["type"],
        exception_type=each["exception"],
        group_ids=[group_id("exception", each["group"]), *more],
        source=each["source"],
        host=each["host"],
        reason=each["reason"],
        headers=each["headers"],
        text_parts=[*texts, each["body"].decode(errors="surrogateescape")],
        memberships={operation: outcome.word for operation, outcome in each["parts"].items()},
    )


def arrival_of(each):
    failure = Failure(
        message_id=each["message_id"],
        queue=each["queue"],
        failed_at=each["at"],
        key="k",
        exception_type=each["exception"],
        exception_message=each["said"],
        message_type=each["type"],
        host=each["host"],
        reason=each["reason"],
    )
    kinds = [("exception", each["group"]), *([] if each["more"] is None else [("said", each["more"])])]
    return Arrival(
        id=each["id"],
        failure=failure,
        message=Message(each["body"], id=each["message_id"], headers=each["headers"]),
        source=each["source"],
        groups=[Group(group_id(kind, title), kind, title) for kind, title in kinds],
    )


def empty():
    """Make the ledger empty."""
    for table in ("failures", "failure_contents", "failure_attempts", "failure_groups", "groups", "parts"):
        yield Sql(f"DELETE FROM @.{table}")  # noqa: S608 - names of ours


def adjusting(world):
    """Return a script that stores what the ledger's verbs would take many steps for."""

    def adjust():
        rows = yield Sql("SELECT id, number FROM @.failure_contents")
        numbers = {row[0]: row[1] for row in rows}
        yield Many(
            "UPDATE @.failures SET status = ?, attempts = ? WHERE number = ?",
            [(int(each["status"]), each["attempts"], numbers[each["id"]]) for each in world],
        )
        taken, parts = set(), []
        for each in world:
            for operation, outcome in each["parts"].items():
                is_claim = outcome in {Outcome.PENDING, Outcome.FORWARDED}
                if not (is_claim and each["id"] in taken):  # one claim for each message
                    parts.append((operation, numbers[each["id"]], int(outcome)))
                else:
                    parts.append((operation, numbers[each["id"]], int(Outcome.SKIPPED)))
                    each["parts"][operation] = Outcome.SKIPPED
                taken.update({each["id"]} if is_claim else ())
        yield Many(
            "INSERT INTO @.parts (operation, failure, batch, is_canary, outcome, reason, at)"
            " VALUES (?, ?, 1, 0, ?, '', 0)",
            parts,
        )

    return adjust


async def check(engine, world, filters):
    ledger = SqlLedger(engine, is_shared=True)
    await engine.run(empty)
    await ledger.record([arrival_of(each) for each in world])
    await engine.run(adjusting(world))
    for each in filters:
        expected = [facts["id"] for facts in world if each.matches(facts_of(facts))]
        assert [found.id for found in await ledger.find(each)] == expected, str(each)
        assert [found.id for found in await ledger.find(each, order=Order.NEWEST)] == expected[::-1]
        await check_last_failed(ledger, each, [facts for facts in world if facts["id"] in expected])
        assert await ledger.count(each) == len(expected)
        for by in ("exception", "queue", "type", "said"):
            counted = sum(group.count for group in await ledger.groups(by, each))
            members = [
                facts for facts in world if facts["id"] in expected and (by != "said" or facts["more"] is not None)
            ]
            assert counted == len(members)


async def check_last_failed(ledger, chosen, members):
    """Read the list by last failure page by page."""
    seen, last = [], Place(0)
    while page := await ledger.find(chosen, after=last, limit=2, order=Order.LAST_FAILED):
        seen += [each.id for each in page]
        last = Place.of(str(page[-1].place), Order.LAST_FAILED)
    assert seen == [each["id"] for each in sorted(members, key=itemgetter("at", "id"), reverse=True)]


class Lab:
    """An engine on a loop of its own, for all examples of a test."""

    def __init__(self, home):
        self._home = home
        self._runner = asyncio.Runner()
        self._engine = home.engine(ManualClock())
        self._runner.run(self._engine.open())

    def check(self, world, filters):
        self._runner.run(check(self._engine, world, filters))

    def close(self):
        self._runner.run(self._engine.close())
        self._runner.close()
        self._home.remove()


@pytest.fixture(scope="module")
def sqlite_lab():
    lab = Lab(SqliteHome())
    yield lab
    lab.close()


@pytest.fixture(scope="module")
def postgres_lab(postgres_url):
    lab = Lab(PostgresHome(postgres_url, "filters"))
    yield lab
    lab.close()


@settings(max_examples=EXAMPLES // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(worlds, asks)
def test_sqlite_selects_what_a_filter_says(sqlite_lab, world, filters):
    """Behaviour 59: what is found, counted and grouped is what ``Filter.matches`` says."""
    sqlite_lab.check(world, filters)


@settings(max_examples=EXAMPLES // 5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(worlds, asks)
def test_postgresql_selects_what_a_filter_says(postgres_lab, world, filters):
    """Behaviour 59: the same on PostgreSQL."""
    postgres_lab.check(world, filters)
