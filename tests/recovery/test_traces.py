# SPDX-License-Identifier: MIT
"""A stack trace is stored once for all failures of a group that share it, and is there as long as one of them is."""

import pytest

from redrive.clock import utc
from redrive.engines.sql.recovery import traces
from redrive.engines.sql.script import Sql

TRACE = """Traceback (most recent call last):
  File "/srv/shop/orders.py", line {line}, in handle
    place(order)
  File "/srv/shop/stock.py", line 7, in place
    raise NoStock(order)
shop.errors.NoStock: {said}
"""


async def stored(process):
    """Return how many traces are stored for all."""

    def script():
        return (yield Sql("SELECT exception_group, digest, text FROM @.failure_traces"))

    return await process.raw_ledger.database.look(script)


async def traces_of(process):
    found = [await process.recovery.show(each.id) for each in await process.recovery.failed()]
    return [each.attempts[0].details["stack_trace"] for each in found]


def failed(process, said, line=20):
    """Return a message that failed with a text, in a line of the program."""
    message = process.site.failed_message(said=said)
    trace = TRACE.format(line=line, said=said)
    return message.with_headers({**message.headers, "redrive-failed-stack-trace": trace})


async def test_failures_that_differ_in_what_the_exception_said_share_their_trace(process):
    sent = [failed(process, f"none left of {number}") for number in range(4)]
    await process.broker.send_many("error", sent)
    await process.recovery.ingest()
    assert len(await stored(process)) == 1
    assert await traces_of(process) == [each.headers["redrive-failed-stack-trace"] for each in sent]


async def test_a_group_with_many_traces_keeps_the_rest_in_its_failures(process, monkeypatch):
    monkeypatch.setattr(traces, "MOST_TRACES", 2)
    sent = [failed(process, f"none left of {line}", line) for line in (20, 21, 22, 23, 21)]
    for each in sent:
        await process.broker.send("error", each)
        await process.recovery.ingest()
    assert len(await stored(process)) == 2
    assert await traces_of(process) == [each.headers["redrive-failed-stack-trace"] for each in sent]


async def test_an_earlier_attempt_keeps_its_trace_when_no_failure_shares_it_any_more(process):
    (id_,) = await process.fail(1, said="first")
    before = (await process.recovery.show(id_)).attempts[0].details
    await process.recovered()
    (copy,) = await process.arrived()
    again = process.site.failed_message(said="second", kind="shop.errors.Closed")
    headers = {**copy.headers, **{name: value for name, value in again.headers.items() if "failed" in name}}
    await process.broker.send("error", copy.message.with_headers(headers))
    await process.recovery.ingest()
    last, first = (await process.recovery.show(id_)).attempts
    assert first.details == before
    assert "second" in last.details["stack_trace"]


@pytest.mark.parametrize("are_all_gone", [True, False])
async def test_traces_go_with_the_last_failure_of_their_group(process, are_all_gone):
    ids = await process.fail(3)
    await process.recovery.archive(ids if are_all_gone else ids[:2])
    await process.work()
    process.clock.advance(1_000)
    await process.raw_ledger.sweep(utc(process.clock.time()))
    assert len(await process.recovery.failed("status:any")) == (0 if are_all_gone else 1)
    assert len(await stored(process)) == (0 if are_all_gone else 1)


async def test_traces_stay_if_their_failures_were_not_counted(process):
    """After a restore that has left the counts out."""

    def forget():
        yield Sql("DELETE FROM @.failure_counts")

    ids = await process.fail(2)
    await process.recovery.archive(ids[:1])
    await process.work()
    await process.raw_ledger.database.run(forget)
    process.clock.advance(1_000)
    await process.raw_ledger.sweep(utc(process.clock.time()))
    assert len(await stored(process)) == 1
    assert len(await traces_of(process)) == 1
