# SPDX-License-Identifier: MIT
"""From error queues into the ledger: one record for each message, whatever comes, in whatever order."""

import asyncio
import json
from dataclasses import replace

import pytest

from redrive.broker import Abandon, Message
from redrive.errors import EngineUnavailable
from redrive.recovery import MessageFailed, MessageSetAside, Status, ingest
from redrive.wiring import open_recovery
from redrive.worker import Recoverability
from tests.recovery.sites import Crash


async def test_one_event_that_fails_at_two_consumers_is_two_records(process):
    """Behaviour 1: one for each, and each goes back to its own queue."""
    for queue in ("orders", "billing"):
        await process.fail(1, queue=queue, id="event-1")
    found = await process.recovery.failed()
    assert [(each.message_id, each.queue) for each in found] == [("event-1", "orders"), ("event-1", "billing")]
    await process.recovered()
    assert (len(await process.arrived()), len(await process.arrived("billing"))) == (1, 1)


async def test_failures_are_recorded_in_the_transaction_that_completes_their_messages(process):
    """If the ledger is with the queues, there is no moment at which only one of the two is done."""
    await process.broker.send_many("error", [process.site.failed_message() for _ in range(5)])
    before = process.calls["engine.apply"]
    await process.recovery.ingest()
    assert process.calls["ledger.record"] == 1
    assert process.calls["engine.apply"] - before == (0 if process.raw_ledger.is_with_queues else 1)
    assert len(await process.recovery.failed()) == 5
    assert (await process.broker.inspect("error")).ready + (await process.broker.inspect("error")).locked == 0


async def test_failures_whose_messages_are_gone_are_recorded_all_the_same(process):
    """A person has removed one of them while it was read: the page is recorded, and what is left comes again."""
    await process.broker.send_many("error", [process.site.failed_message() for _ in range(3)])

    def lose(arrivals):
        page = [each.failure.message_id for each in arrivals]
        assert len(page) == 3
        process.clock.advance(100)  # longer than the locks last

    process.at("ledger.record", lose)
    await process.recovery.ingest()
    await process.site.until(lambda: are_read(process))
    found = await process.recovery.failed()
    assert [each.attempts for each in found] == [1, 1, 1]
    assert len([each for each in process.events if isinstance(each, MessageFailed)]) == 3


async def test_the_same_failure_twice_is_one_attempt(process):
    """Behaviour 2: it is read, recorded, and read again because it could not be completed."""
    process.raw_ledger.is_with_queues = False
    await process.broker.send("error", process.site.failed_message())
    for _ in range(3):
        process.fails("engine.apply", EngineUnavailable("no answer"))
        with pytest.raises(EngineUnavailable):
            await process.recovery.ingest()
        process.clock.advance(100)
    await process.site.until(lambda: are_read(process))
    (found,) = await process.recovery.failed()
    assert found.attempts == 1
    assert len([each for each in process.events if isinstance(each, MessageFailed)]) == 1


async def are_read(process):
    await process.recovery.ingest()
    info = await process.broker.inspect("error")
    return info.ready + info.locked == 0


async def test_messages_that_agree_in_everything_are_one_record(process):
    """D2: nobody could tell which of them a recovered copy is; each failure is counted."""
    failed = process.site.failed_message()
    await process.broker.send_many("error", [failed, failed])
    await process.recovery.ingest()
    (found,) = await process.recovery.failed()
    assert found.attempts == 2


@pytest.mark.parametrize(
    "other",
    [
        {"body": b"another"},
        {"headers": {"tenant": "b"}},
        {"subject": "another"},
        {"correlation_id": "c"},
        {"queue": "billing"},
    ],
)
async def test_different_messages_with_one_id_are_known_and_recoverable(process, other):
    """D2: ids need not be unique; whatever tells two messages apart, both are kept and both are sent."""
    await process.fail(1, id="m", body=b"one")
    await process.fail(1, **{"id": "m", "body": b"one", **other})
    found = await process.recovery.failed()
    assert [each.attempts for each in found] == [1, 1]
    assert len({each.id for each in found}) == 2
    assert (await process.recovered()).progress.forwarded == 2
    sent = [*await process.arrived(), *await process.arrived("billing")]
    assert sorted(each.body for each in sent) == sorted([b"one", other.get("body", b"one")])
    await process.succeed(sent[0])
    await process.fail_again(sent[1])
    assert sorted(each.status for each in await process.recovery.failed("status:any")) == [1, 3]


async def test_a_crash_between_reading_and_completing_reads_the_same_again(site):
    """Behaviour 2: recorded once, and nothing is left in the error queue."""
    process = await site.open()
    process.dies("ledger.record", when="after")
    with pytest.raises(Crash):
        await process.fail(3)
    await site.crash()
    process = await site.open()
    site.clock.advance(100)
    await process.recovery.ingest()
    while (await process.broker.inspect("error")).ready:  # upkeep had its hands on them at that moment
        await process.recovery.ingest()
    assert [each.attempts for each in await process.recovery.failed()] == [1, 1, 1]


async def test_an_older_attempt_that_comes_late_only_counts(process):
    """Behaviour 3: it replaces neither details nor groups, but is in the list of attempts, in order."""
    now = process.clock.time()
    await process.fail(1, id="m", at=now, kind="New", said="new")
    await process.fail(1, id="m", at=now - 50, kind="Old", said="old")
    (found,) = await process.recovery.failed()
    assert (found.attempts, found.exception_type, found.exception_message) == (2, "New", "new")
    assert found.first_failed_at.timestamp() == pytest.approx(now - 50)
    assert found.failed_at.timestamp() == pytest.approx(now)
    detail = await process.recovery.show(found.id)
    assert [each.details["exception_type"] for each in detail.attempts] == ["New", "Old"]
    assert [each.title for each in await process.recovery.groups()] == ["New: New"] or len(
        await process.recovery.groups()
    ) == 1


@pytest.mark.parametrize("is_newest_first", [False, True])
async def test_two_attempts_in_one_page_are_one_record(process, is_newest_first):
    """Behaviour 4: count 2, the newer one's details, in whatever order they come."""
    made = [process.site.failed_message(id="m", said=said) for said in ("first", "second")]
    await process.broker.send_many("error", made[::-1] if is_newest_first else made)
    await process.recovery.ingest()
    (found,) = await process.recovery.failed()
    assert (found.attempts, found.exception_message) == (2, "second")
    assert len((await process.recovery.show(found.id)).attempts) == 2


async def test_processes_that_read_at_once_lose_no_attempt(site):
    """Behaviour 5: whoever reads what; in the end all attempts are there, and the newest groups only."""
    processes = [
        await site.open(classifiers={"said": lambda failure, _message: failure.exception_message}) for _ in range(2)
    ]
    for process, other in ((processes[0], "error"), (processes[1], "error-2")):
        await process.broker.declare(other)
    made = [site.failed_message(id=f"m-{number % 5}", said=f"said {number}") for number in range(40)]
    await processes[0].broker.send_many("error", made)
    await asyncio.gather(*(each.recovery.ingest() for each in processes * 2))
    found = await processes[0].recovery.failed()
    assert [each.attempts for each in found] == [8] * 5
    assert {each.exception_message for each in found} == {f"said {number}" for number in range(35, 40)}
    groups = await processes[0].recovery.groups(by="said")
    assert {each.title: each.count for each in groups} == {f"said {number}": 1 for number in range(35, 40)}


async def test_only_the_last_ten_attempts_are_kept(process):
    """Behaviour 2: they are all counted; the oldest are forgotten, the first time is not."""
    for number in range(13):
        await process.fail(1, id="m", said=f"try {number}")
    (found,) = await process.recovery.failed()
    detail = await process.recovery.show(found.id)
    assert found.attempts == 13
    assert [each.details["exception_message"] for each in detail.attempts] == [f"try {n}" for n in range(12, 2, -1)]
    assert detail.summary.first_failed_at < detail.attempts[-1].failed_at


async def test_a_message_that_says_little_is_read_all_the_same(process):
    """Behaviour 6: only the queue it failed in is needed."""
    await process.broker.send("error", Message(b"x", headers={"redrive-failed-queue": "orders"}))
    await process.recovery.ingest()
    (found,) = await process.recovery.failed()
    assert (found.queue, found.exception_type, found.message_type) == ("orders", "", "")
    assert (await process.recovered()).progress.forwarded == 1


async def test_a_message_without_a_queue_is_set_aside_and_the_rest_is_read(process):
    """Behaviour 6: with the reason; one that cannot be read does not stop those around it."""
    good = [process.site.failed_message() for _ in range(4)]
    bad = Message(b"whose?", id="bad", headers={"x": 1})
    await process.broker.send_many("error", [*good[:2], bad, *good[2:]])
    await process.recovery.ingest()
    assert await process.recovery.count("") == 4
    (aside,) = await process.recovery.aside()
    assert (aside.received.id, aside.received.body, aside.received.headers["x"]) == ("bad", b"whose?", 1)
    assert "in which queue it failed" in aside.reason
    assert [each.message_id for each in process.events if isinstance(each, MessageSetAside)] == ["bad"]
    assert (await process.broker.inspect("error")).ready == 0


async def test_what_was_set_aside_can_be_read_again_while_everything_runs(process):
    """Behaviour 7: those that can be read now are; one that cannot does not block the others."""
    bad = [Message(b"%d" % number, id=f"bad-{number}") for number in range(3)]
    unfit = Message(b"x", id="unfit", headers={"redrive-failed-queue": "no/such//name" + "x" * 300})
    await process.broker.send_many("error", [bad[0], unfit, *bad[1:]])
    await process.recovery.ingest()
    assert await process.recovery.reimport() == (0, 4)
    assert len(await process.recovery.aside()) == 4
    read, left = await process.recovery.reimport(queue="orders")
    assert (read, left) in {(3, 1), (4, 0)}
    assert len(await process.recovery.aside()) == left
    assert {each.queue for each in await process.recovery.failed()} == {"orders"}
    operation = await process.recovered()
    assert operation.progress.forwarded == read


async def test_nothing_that_cannot_be_read_is_lost_when_a_queue_is_made_anew(process):
    """Behaviour 6: numbers of messages may begin again with a new queue; what is kept is kept."""
    for number in range(2):
        await process.broker.send("error", Message(b"%d" % number, id=f"bad-{number}"))
        await process.recovery.ingest()
        await process.broker.delete("error")
        await process.broker.declare("error")
    assert [each.received.body for each in await process.recovery.aside()] == [b"0", b"1"]


@pytest.mark.large
async def test_a_store_that_is_full_stops_reading_and_it_goes_on_by_itself(site):
    """Behaviour 8: failures stay in the error queue, with their deliveries uncounted, and are read later."""
    process = await site.open()
    process.fails("ledger.record", EngineUnavailable("disk is full"), times=15)
    await process.broker.send_many("error", [process.site.failed_message() for _ in range(3)])
    running = asyncio.create_task(process.recovery.run())
    await site.until(lambda: are_there(process, 3), every=1.0)
    process.recovery.stop()
    await site.play(running)
    assert process.calls["ledger.record"] == 16
    info = await process.broker.inspect("error")
    assert (info.ready, info.dead) == (0, 0)


async def are_there(process, number):
    return await process.recovery.count("") == number


async def test_a_dead_letter_queue_is_a_source_too(site):
    """L5.1: on request; the queue it was dead-lettered in is where it goes."""
    process = await site.open(sources=("error", "orders/$dead"))
    await process.broker.send("orders", Message(b"dead", id="d-1"))
    (delivery,) = await process.broker.receive("orders")
    await delivery.dead_letter("Broken", "cannot be read")
    await process.recovery.ingest()
    (found,) = await process.recovery.failed()
    assert (found.message_id, found.queue, found.source) == ("d-1", "orders", "orders/$dead")
    await process.recovered()
    assert await process.bodies() == [b"dead"]


async def test_a_source_that_is_not_there_yet_is_no_problem(site):
    """L5.1: it is read when it comes."""
    process = await site.open(sources=("later", "error"))
    await process.fail(1)
    await process.broker.declare("later")
    await process.fail(1, source="later")
    assert await process.recovery.count("") == 2


async def test_what_a_worker_moves_to_the_error_queue_is_read(process):
    """L5.1: with everything that it says about the failure."""
    seen = []

    async def handle(body: bytes):
        seen.append(body)
        raise LookupError("no such order")

    await process.broker.send("orders", Message(b"x", id="w-1", subject="order.placed"))
    policy = Recoverability(immediate=2, delayed=None, error_queue="error")
    async with process.worker(handle, recoverability=policy):
        await process.site.until(lambda: len(seen) == 3)
    await process.recovery.ingest()
    (found,) = await process.recovery.failed()
    assert (found.message_id, found.queue, found.message_type) == ("w-1", "orders", "order.placed")
    assert (found.exception_type, found.exception_message) == ("LookupError", "no such order")
    (attempt,) = (await process.recovery.show(found.id)).attempts
    assert attempt.details["worker"] == "shop"
    assert attempt.details["tries"] == 3
    assert "raise LookupError" in attempt.details["stack_trace"]


async def test_foreign_attributes_survive_the_round_trip(process):
    """Behaviour 10: a message of another framework goes back with its own headers, without those of its failure."""
    theirs = {"NServiceBus.MessageId": "1", "NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder", "X": 1}
    told = {
        "NServiceBus.FailedQ": "orders@host",
        "NServiceBus.TimeOfFailure": "2026-01-04 00:00:00:000000 Z",
        "NServiceBus.ExceptionInfo.ExceptionType": "System.Exception",
    }
    await process.broker.send("error", Message(b"<x/>", id="n-1", headers={**theirs, **told}))
    await process.recovery.ingest()
    await process.recovered()
    (sent,) = await process.arrived()
    assert {name: value for name, value in sent.headers.items() if not name.startswith("redrive-")} == theirs


# --- integrations


async def test_the_events_queue_hears_of_every_failure_and_recovery(site):
    """L5.1: as JSON, in the transaction that completes what was read."""
    process = await site.open(events_queue="news")
    (id_,) = await process.fail(1)
    await process.recovered()
    await process.succeed(*await process.arrived())
    news = await process.arrived("news")
    assert [each.message.subject for each in news] == [
        "redrive.recovery.message_failed",
        "redrive.recovery.message_recovered",
    ]
    assert [json.loads(each.body)["id"] for each in news] == [id_, id_]


@pytest.mark.parametrize("verb", ["ledger.record", "ledger.confirm"])
async def test_the_events_queue_hears_of_it_although_the_process_died(site, verb):
    """L5.1: recorded, and dead before it could tell: it is told with the next reading, at least once."""
    process = await site.open(events_queue="news")
    if verb == "ledger.confirm":
        await process.fail(1)
        await process.recovered()
    sent = await process.arrived()
    process.dies(verb, when="after")
    with pytest.raises(Crash):
        await (process.succeed(*sent) if sent else process.fail(1))
    await site.crash()
    process = await site.open(events_queue="news")
    site.clock.advance(100)
    told = []

    async def is_told():
        await process.recovery.ingest()  # may find nothing at first: upkeep takes messages in hand too
        told.extend(await process.arrived("news"))
        return len(told) >= (2 if sent else 1)

    await site.until(is_told)


async def test_a_recovery_is_opened_as_a_program_opens_it(process):
    """L5.1: beside the queues; the same failures are there for whoever opens it."""
    await process.fail(2)
    async with open_recovery(process.broker) as recovery:
        assert await recovery.ingest() is False
        found = await recovery.failed()
    assert {each.status for each in found} <= {Status.UNRESOLVED}


async def test_more_failures_than_fit_on_two_pages_are_all_read(process, monkeypatch):
    monkeypatch.setattr(ingest, "_FIRST_PAGE", 5)
    monkeypatch.setattr(ingest, "_PAGE", 5)
    await process.broker.send_many("error", [process.site.failed_message() for _ in range(23)])
    assert await process.recovery.ingest()
    assert await process.recovery.count() == 23
    assert (await process.broker.inspect("error")).ready == 0


async def test_a_page_that_cannot_be_stored_does_not_keep_the_other_from_its_end(process, monkeypatch):
    """Two pages are on their way; the one that failed is given back, and the other reader gets it."""
    monkeypatch.setattr(ingest, "_FIRST_PAGE", 5)
    monkeypatch.setattr(ingest, "_PAGE", 5)
    process.raw_ledger.is_with_queues = False
    await process.broker.send_many("error", [process.site.failed_message() for _ in range(15)])
    process.at("ledger.record", raise_once, nth=2)
    with pytest.raises(EngineUnavailable):
        await process.recovery.ingest()
    assert await process.recovery.count() == 15
    info = await process.broker.inspect("error")
    assert (info.ready, info.locked) == (0, 0)


# --- without locks


@pytest.fixture
async def beside(site, monkeypatch):
    """A process with 23 failures in its error queue, of which a page is 5, and a ledger that is with the queues."""
    if site.store is not site.queues:
        pytest.skip("the ledger is in another database than the queues")
    monkeypatch.setattr(ingest, "_FIRST_PAGE", 5)
    monkeypatch.setattr(ingest, "_PAGE", 5)
    process = await site.open()
    await process.broker.send_many("error", [site.failed_message() for _ in range(23)])
    return process


async def is_read_once(process):
    """Say that all failures are read, each once, and that nothing is left behind."""
    found = await process.recovery.failed(limit=100)
    assert [each.attempts for each in found] == [1] * 23
    info = await process.broker.inspect("error")
    assert (info.ready, info.locked) == (0, 0)
    assert await process.sql("SELECT name FROM @.leases WHERE name LIKE 'reading%'") == []


async def test_many_failures_are_read_without_locking_their_messages(beside):
    assert await beside.recovery.ingest()
    await is_read_once(beside)
    assert beside.calls["ledger.record"] == 1, "the first page"
    assert beside.calls["ledger.record_unlocked"] == 4
    assert len([each for each in beside.events if isinstance(each, MessageFailed)]) == 23


async def test_what_is_read_without_locks_is_in_the_history_of_its_queue(beside):
    await beside.recovery.ingest()
    await beside.broker.engine.upkeep()
    found = await beside.sql("SELECT metric, sum(n) FROM @.tallies WHERE name = 'error' GROUP BY metric")
    counted = {metric: int(n) for metric, n in found}
    assert (counted["delivered"], counted["completed"]) == (23, 23)


async def test_a_message_that_another_has_locked_meanwhile_is_left_to_it(beside):
    """Its page is refused, and read again with locks; what the other holds is not read."""
    held = []

    async def lock(*_values):
        held.extend(await beside.broker.engine.lock_next("error", 2))

    beside.at("ledger.record_unlocked", lock)
    await beside.recovery.ingest()
    assert len(held) == 2
    assert await beside.recovery.count() == 21
    assert (await beside.broker.inspect("error")).locked == 2
    await beside.broker.engine.apply([Abandon(each.lock) for each in held])
    await beside.recovery.ingest()
    await is_read_once(beside)


async def test_a_message_that_is_gone_meanwhile_is_not_recorded(beside):
    async def take(*_values):
        await beside.broker.engine.lock_next("error", 2, delete=True)

    beside.at("ledger.record_unlocked", take)
    await beside.recovery.ingest()
    assert await beside.recovery.count() == 21
    assert (await beside.broker.inspect("error")).ready == 0


@pytest.mark.parametrize("when", ["before", "after"])
async def test_after_a_death_among_unlocked_messages_the_next_process_locks_them(beside, when):
    """One of them may be the cause: their deliveries are counted from now on. Nothing is lost, nothing is twice."""
    beside.dies("ledger.record_unlocked", when=when, nth=2)
    with pytest.raises(Crash):
        await beside.recovery.ingest()
    site = beside.site
    await site.crash()
    after = await site.open()
    await after.recovery.ingest()
    await is_read_once(after)
    assert after.calls["ledger.record_unlocked"] == 0
    await after.fail(6)
    assert after.calls["ledger.record_unlocked"] == 1, "the note was removed"


async def test_an_error_while_nothing_is_locked_leaves_the_rest_where_it_is(beside):
    beside.at("ledger.record_unlocked", raise_once, nth=2)
    with pytest.raises(EngineUnavailable):
        await beside.recovery.ingest()
    info = await beside.broker.inspect("error")
    assert (info.ready, info.locked) == (23 - await beside.recovery.count(), 0)
    await beside.recovery.ingest()
    await is_read_once(beside)


async def test_what_cannot_be_read_among_unlocked_messages_is_set_aside(beside):
    await beside.broker.send("error", Message(b"?"))
    await beside.recovery.ingest()
    await is_read_once(beside)
    assert len(await beside.raw_ledger.aside()) == 1


async def test_messages_whose_journeys_are_noted_are_locked(beside):
    await beside.broker.update("error", journey="all")
    await beside.recovery.ingest()
    await is_read_once(beside)
    assert beside.calls["ledger.record_unlocked"] == 0


async def test_expired_messages_are_not_read(beside):
    beside.at("ledger.record_unlocked", lambda *_: beside.clock.advance(100))
    await beside.broker.send_many("error", [replace(beside.site.failed_message(), ttl=50) for _ in range(7)])
    await beside.recovery.ingest()
    await is_read_once(beside)


def raise_once(*_values):
    raise EngineUnavailable("away")
