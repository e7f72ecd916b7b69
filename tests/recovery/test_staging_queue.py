# SPDX-License-Identifier: MIT
"""Staging: copies go to the staging queue, all of them or with a reason, and nobody sees a half of it."""

import pytest

from redrive.broker import Message, Send
from redrive.errors import EngineUnavailable
from redrive.recovery import MessagesEjected, Outcome, Status
from tests.recovery.sites import Crash

pytestmark = pytest.mark.between_databases

STAGING = "redrive.staging/orders"
OURS = {
    "redrive-recovery-tag",
    "redrive-recovery-staging",
    "redrive-recovery-to",
}


def is_staged(effect):
    return isinstance(effect, Send) and effect.queue == STAGING


async def test_a_batch_that_is_refused_once_is_staged_one_by_one(process):
    """Behaviour 24: the broker refuses the whole batch once: all are sent, none twice."""
    await process.fail(10)
    process.refuses(is_staged, times=1)
    operation = await process.recovered()
    assert operation.progress.forwarded == 10
    arrived = [each.id for each in await process.arrived()]
    assert len(arrived) == len(set(arrived)) == 10


async def test_a_broker_that_does_not_answer_is_asked_again(process):
    """Behaviour 24: it was away for a moment; nothing is ejected for that, and nothing is sent twice."""
    await process.fail(10)
    await process.recovery.recover("status:unresolved")
    process.refuses(is_staged, times=1, error=EngineUnavailable("away"))
    with pytest.raises(EngineUnavailable):
        await process.work()
    await process.work()
    (operation,) = await process.recovery.operations()
    assert (operation.progress.forwarded, operation.progress.failed) == (10, 0)
    assert len(await process.arrived()) == 10


@pytest.mark.parametrize("tries", [1, 3, 5])
async def test_one_message_that_is_always_refused_is_ejected(site, tries):
    """Behaviour 25: ejected after so many tries, the others sent, the operation completes with a visible reason."""
    process = await site.open(lanes={"eject_after": tries})
    ids = await process.fail(5)
    asked = []
    process.refuses(lambda effect: is_staged(effect) and effect.message.id == "message-3" and not asked.append(effect))
    operation = await process.recovered()
    assert operation.state.word == "completed"
    assert (operation.progress.forwarded, operation.progress.failed) == (4, 1)
    assert len(asked) == 1 + tries  # once with all others, then alone
    (part,) = await process.recovery.outcomes(operation.number, [Outcome.FAILED])
    assert part.id == ids[2]
    assert part.reason == "could not be staged: not that one"
    assert (await process.summary(ids[2])).status is Status.UNRESOLVED
    (told,) = [each for each in process.events if isinstance(each, MessagesEjected)]
    assert (told.operation, told.lane, told.count) == (operation.number, "orders", 1)
    assert {each.id for each in await process.arrived()} == {f"message-{number}" for number in (1, 2, 4, 5)}


@pytest.mark.parametrize(
    ("verb", "when", "nth"),
    [
        ("engine.declare", "after", 1),
        ("ledger.next_batch", "after", 1),
        ("ledger.to_stage", "after", 1),
        ("engine.apply", "after", 1),
        ("engine.apply", "before", 2),
        ("ledger.staged", "before", 1),
        ("ledger.staged", "after", 1),
    ],
)
async def test_a_process_that_dies_while_it_stages_loses_and_doubles_nothing(site, verb, when, nth):
    """Behaviour 26: after a restart every message is sent once; what was staged in vain is dropped and counted."""
    process = await site.open(lanes={"page": 4})
    await process.fail(10)
    operation = await process.recovery.recover("status:unresolved")
    process.dies(verb, when=when, nth=nth)
    with pytest.raises(Crash):
        await process.work()
    staged = await staged_copies(site)
    await site.crash()
    process = await site.open(lanes={"page": 4})
    site.clock.advance(60)
    await process.work()
    operation = await process.recovery.operation(operation.number)
    assert (operation.state.word, operation.progress.forwarded) == ("completed", 10)
    assert sorted(each.body for each in await process.arrived()) == sorted(b"order %d" % n for n in range(1, 11))
    strays = sum(each.strays for each in await process.recovery.lanes())
    assert strays == (0 if (verb, when) == ("ledger.staged", "after") else staged)


async def staged_copies(site):
    """Count what is in the staging queue, after everybody is dead."""
    from redrive.errors import QueueNotFound

    try:
        return len(await site.processes[0]._raw.peek(STAGING, 100))
    except QueueNotFound:
        return 0


@pytest.mark.large
async def test_nobody_stages_before_the_last_batch_of_its_lane_has_gone(process):
    """L5.6: one batch at a time in a lane."""
    await process.fail(2_001)
    await process.recovery.recover("status:unresolved")
    seen = []

    async def look(*_values):
        seen.append((await process.broker.inspect(STAGING)).ready)

    for nth in (1, 2, 3):
        process.at("ledger.to_stage", look, nth=nth)
    await process.work()
    assert seen == [0, 0, 0]
    assert len(await process.arrived()) == 2_001


async def test_copies_are_dropped_although_everybody_died_who_knew_of_them(site):
    """Behaviour 31: staged by one who died, cancelled by another who died before he looked for strays."""
    one = await site.open()
    await one.fail(3)
    operation = await one.recovery.recover("status:unresolved")
    one.dies("ledger.staged")
    with pytest.raises(Crash):
        await one.work()
    await site.crash()
    site.clock.advance(100)
    two = await site.open()
    two.dies("ledger.finish", when="after")
    with pytest.raises(Crash):
        await site.play(two.recovery.cancel(operation.number))
    await site.crash()
    site.clock.advance(100)
    three = await site.open()
    assert (await three.broker.inspect(STAGING)).ready == 3
    await three.work()
    left = await three.broker.inspect(STAGING)
    assert (left.ready, left.locked) == (0, 0)
    assert await three.arrived() == []


async def test_a_staged_copy_says_nothing_of_its_failure(process):
    """Behaviour 27: staged and forwarded copies have the sender's headers and our own few, no others."""
    theirs = {"tenant": "acme", "n": 5, "f": 0.5, "yes": True, "nothing": None, "x-trace": "1-2-3"}
    await process.fail(1, headers=theirs)
    staged = []

    async def look(*_values):
        staged.extend(await process.broker.peek(STAGING))

    process.at("ledger.staged", look)
    await process.recovered()
    (forwarded,) = await process.arrived()
    assert set(staged[0].headers) - set(theirs) == OURS
    assert set(forwarded.headers) - set(theirs) == OURS - {"redrive-recovery-staging", "redrive-recovery-to"}
    assert {name: value for name, value in forwarded.headers.items() if name in theirs} == theirs


BODIES = {
    "0 B": b"",
    "1 B": b"x",
    "84 KB": b"a" * 84_000,
    "86 KB": b"\xe2\x82\xac" * 28_700,
    "900 KB": bytes(range(256)) * 3_516,
    "binary": bytes(range(255, -1, -1)),
    "NUL": b"\0\0a\0",
    "half of a character": b"\xe2\x82",
}


async def test_a_body_comes_back_as_it_was(process):
    """Behaviour 28: bodies of any size and kind return byte for byte."""
    for name, body in BODIES.items():
        await process.fail(1, body=body, id=name)
    assert {each.message_id for each in await process.recovery.failed()} == set(BODIES)
    operation = await process.recovered()
    assert operation.progress.forwarded == len(BODIES)
    assert {each.id: each.body for each in await process.arrived()} == BODIES


async def test_everything_else_about_a_message_comes_back_as_it_was(process):
    """Behaviour 10: properties and headers of every kind survive the round trip; its time to live ends with it."""
    whole = Message(
        b'{"n": 1}',
        id="id-1",
        content_type="application/json",
        subject="order.placed",
        correlation_id="conversation-1",
        reply_to="answers",
        to="somebody",
        session_id="session-1",
        headers={"ü": "é\U0001f40d", "n": 2**53, "f": -0.25, "no": False, "nothing": None, "x": "", "nul": "a\0b"},
    )
    told = process.site.failed_message(headers=dict(whole.headers), id="id-1").headers
    failed = {name: value for name, value in told.items() if name.startswith("redrive-failed")}
    await process.broker.send("error", with_headers(whole, {**whole.headers, **failed}))
    await process.recovery.ingest()
    await process.recovered()
    (arrived,) = await process.arrived()
    kept = {name: value for name, value in arrived.headers.items() if name not in OURS}
    assert with_headers(arrived.message, kept) == whole


def with_headers(message, headers):
    from dataclasses import replace

    return replace(message, headers=headers)


async def test_a_message_of_a_session_goes_back_into_its_session(process):
    """Behaviour 10: also where the destination takes messages of sessions only."""
    await process.broker.declare("steps", requires_session=True)
    await process.fail(1, queue="steps", session_id="s-1")
    assert (await process.recovered()).progress.forwarded == 1
    session = await process.broker.accept_session("steps", "s-1")
    async with session:
        (delivery,) = await session.receive(max_messages=5)
        assert delivery.body == b"order 1"
        await delivery.complete()


async def test_a_destination_that_knows_its_id_takes_it_again(process):
    """L5.7: the destination's duplicate detection has seen the message before, and does not drop it."""
    await process.broker.declare("once", duplicate_detection=3_600)
    await process.broker.send("once", Message(b"x", id="known"))
    await process.arrived("once")
    await process.fail(1, queue="once", id="known")
    await process.recovered()
    assert [each.id for each in await process.arrived("once")] == ["known"]
