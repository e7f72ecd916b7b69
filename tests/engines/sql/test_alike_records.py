# SPDX-License-Identifier: MIT
"""Failures that are alike are stored by a pattern, and what is stored is the same as if each were alone."""

from dataclasses import replace

import pytest

from redrive.engines.sql.recovery import traces
from redrive.engines.sql.recovery.ledger import SqlLedger
from redrive.engines.sql.script import Sql
from redrive.engines.sqlite import SqliteEngine
from redrive.recovery.arrivals import AlikeArrival, Recorded
from redrive.testing import ManualClock
from tests.recovery.test_alike_texts import as_stored, failed, one_by_one, taught

TABLES = (
    *("failures", "failure_contents", "failure_traces", "failure_attempts", "failure_counts", "groups"),
    *("group_states", "seen_names", "tallies", "ledger_changes"),
)


def message(number, said="no", **changes):
    return replace(failed(f"{said} {number}", own={"tenant": f"t-{number}"}, **changes), id=f"o-{number}")


def arrival(sent, sequence=1):
    found = taught(failed(own={"tenant": ""})).read(as_stored(sent, sequence=sequence), "error")
    assert isinstance(found, AlikeArrival)
    return found


SEVERAL = {
    "one": [arrival(message(1))],
    "several": [arrival(message(number)) for number in range(5)],
    "one that is not alike between them": [
        arrival(message(1)),
        one_by_one(as_stored(message(2, headers={"redrive-failed-host": "h-2"}))),
        arrival(message(3)),
    ],
    "a message that fails twice": [arrival(message(1)), arrival(message(2)), arrival(message(1), sequence=2)],
    "the same failure twice": [arrival(message(1)), arrival(message(1))],
    "a time that is none": [arrival(message(1, headers={"redrive-failed-at": "now"}))],
    "no properties but headers": [arrival(replace(message(1), subject="placed", reply_to="answers"))],
    "words to search": [arrival(replace(message(1), body=b"\xff\x00", session_id="s"))],
}


async def stored_after(pages):
    """Return what is in the tables after failures are recorded, and what became of each."""
    engine = SqliteEngine(":memory:", clock=ManualClock(start=1_800_000_000))
    ledger = SqlLedger(engine, is_with_queues=True)
    await ledger.open()
    try:
        recorded = [await ledger.record(page) for page in pages]
        assert await ledger.check_counts() == []
        return recorded, [await engine.run(lambda name=name: rows_of(name)) for name in TABLES]
    finally:
        await ledger.close()


def rows_of(table):
    rows = yield Sql(f"SELECT * FROM @.{table} ORDER BY 1, 2")  # noqa: S608 - a name of ours
    return [tuple(row) for row in rows]


@pytest.mark.parametrize("arrivals", SEVERAL.values(), ids=SEVERAL)
async def test_what_is_stored_by_a_pattern_is_what_each_would_store(arrivals):
    whole = [getattr(each, "whole", each) for each in arrivals]
    known = [one_by_one(as_stored(message(3)))]
    again = [arrival(message(number), sequence=9) for number in range(4)]
    assert await stored_after([known, arrivals, again]) == await stored_after([known, whole, [e.whole for e in again]])


async def test_of_a_group_with_very_many_traces_each_failure_has_its_own(monkeypatch):
    monkeypatch.setattr(traces, "MOST_TRACES", 0)
    several = SEVERAL["several"]
    found = await stored_after([several])
    assert found == await stored_after([[each.whole for each in several]])
    assert found[1][TABLES.index("failure_traces")] == []


async def test_numbers_follow_the_order_in_which_they_were_found():
    (recorded,), (failures, *_) = await stored_after([SEVERAL["one that is not alike between them"]])
    assert [each.is_new for each in recorded] == [True] * 3
    assert [row[0] for row in failures] == [1, 2, 3]
    (again, _), _ = await stored_after([SEVERAL["several"], SEVERAL["several"]])
    assert again == [Recorded(each.id, is_new=True) for each in SEVERAL["several"]]
