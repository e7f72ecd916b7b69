# SPDX-License-Identifier: MIT
"""Forwarding: what was staged leaves for its destination, once, whatever happens on the way."""

import asyncio

import pytest

from redrive.broker import Message, Send
from redrive.broker.rules import RECOVERY_HINTS
from redrive.errors import EngineUnavailable, QueueNotFound
from redrive.recovery import MessageSetAside, Outcome, Status, StraysDropped
from tests.recovery.sites import Crash

pytestmark = pytest.mark.between_databases

STAGING = "redrive.staging/orders"


def is_for(queue, id_=None):
    def fits(effect):
        return isinstance(effect, Send) and effect.queue == queue and id_ in {None, effect.message.id}

    return fits


async def test_only_copies_of_the_recorded_staging_are_forwarded(process):
    """Behaviour 29: copies of another attempt at staging are dropped and counted."""
    await process.fail(3)

    async def add_old_copies(*_values):
        copies = [each.message for each in await process.broker.peek(STAGING)]
        await process.broker.purge(STAGING)
        for copy in copies:
            headers = {**copy.headers, "redrive-recovery-staging": "an older attempt"}
            await process.broker.send(STAGING, Message(copy.body, id=copy.id, headers=headers))
        await process.broker.send_many(STAGING, copies)

    process.at("ledger.staged", add_old_copies)
    operation = await process.recovered()
    assert operation.progress.forwarded == 3
    assert await process.bodies() == [b"order 1", b"order 2", b"order 3"]
    assert [each.strays for each in await process.recovery.lanes()] == [3]
    assert sum(each.count for each in process.events if isinstance(each, StraysDropped)) == 3
    assert (await process.broker.inspect(STAGING)).ready == 0


@pytest.mark.parametrize(
    ("verb", "when", "nth"),
    [
        ("ledger.staged", "after", 1),
        ("engine.lock_next", "after", 1),
        ("engine.lock_next", "after", 2),
        ("engine.apply", "before", 5),
        ("engine.apply", "after", 5),
        ("ledger.forwarded", "before", 1),
        ("ledger.forwarded", "after", 1),
        ("ledger.finish", "before", 1),
        ("ledger.finish", "after", 1),
    ],
)
async def test_a_process_that_dies_while_it_forwards_loses_and_doubles_nothing(site, verb, when, nth):
    """Behaviour 30: after a restart the staging queue is drained; every message arrives once."""
    process = await site.open(lanes={"page": 4})
    await process.fail(10)
    operation = await process.recovery.recover("status:unresolved")
    process.at("ledger.to_stage", lambda *_: process.dies(verb, when=when, nth=nth))
    try:
        await process.work()
    except Crash:
        await site.crash()
    else:
        pytest.fail(f"{verb} is not called any more where this test expects it")
    process = await site.open(lanes={"page": 4})
    site.clock.advance(60)
    await process.work()
    operation = await process.recovery.operation(operation.number)
    assert (operation.state.word, operation.progress.forwarded) == ("completed", 10)
    assert sorted(each.body for each in await process.arrived()) == sorted(b"order %d" % n for n in range(1, 11))


async def test_after_a_restart_copies_that_a_dead_process_has_locked_are_waited_for(site):
    """Behaviour 30: the drain does not end while a lock on a copy has not ended."""
    process = await site.open(lanes={"lock_duration": 10.0})
    await process.fail(3)
    await process.recovery.recover("status:unresolved")
    process.at("ledger.staged", lambda *_: process.dies("engine.lock_next", when="after"), when="after")
    with pytest.raises(Crash):
        await process.work()
    await site.crash()
    process = await site.open()
    site.clock.advance(5)  # neither the lease has ended nor the locks
    await process.work()
    assert await process.arrived() == []
    site.clock.advance(10.5)  # the lease has
    await process.work()
    (operation,) = await process.recovery.operations()
    assert operation.progress.forwarded == 3
    assert len(await process.arrived()) == 3


async def test_the_same_copy_twice_does_not_end_the_batch_early(process):
    """Behaviour 31: a duplicate delivery inside the staging queue is a stray; all others arrive (their gap)."""
    await process.fail(5)

    async def double_the_first(*_values):
        first = (await process.broker.peek(STAGING))[0]
        for _ in range(4):
            await process.broker.send(STAGING, first.message)

    process.at("ledger.staged", double_the_first)
    operation = await process.recovered()
    assert operation.progress.forwarded == 5
    assert await process.bodies() == [b"order %d" % number for number in range(1, 6)]
    assert [each.strays for each in await process.recovery.lanes()] == [4]


async def test_a_foreign_message_in_the_staging_queue_is_set_aside(process):
    """Behaviour 32: it is not ours to send or to drop: people find it where everything is that was set aside."""
    await process.fail(3)
    process.at("ledger.staged", lambda *_: process.broker.send(STAGING, Message(b"lost its way", id="foreign")))
    operation = await process.recovered()
    assert (operation.progress.total, operation.progress.forwarded) == (3, 3)
    assert len(await process.arrived()) == 3
    (aside,) = await process.recovery.aside()
    assert (aside.received.id, aside.received.body) == ("foreign", b"lost its way")
    assert "recovery did not put it there" in aside.reason
    assert [each.message_id for each in process.events if isinstance(each, MessageSetAside)] == ["foreign"]
    assert [each.strays for each in await process.recovery.lanes()] == [0]


async def test_a_destination_that_is_gone_costs_only_its_own_messages(process):
    """Behaviour 33: they are unresolved again with the reason, others are unaffected, later batches run."""
    lost = await process.fail(2, queue="billing")
    await process.fail(3)
    await process.broker.delete("billing")
    operation = await process.recovered()
    assert (operation.state.word, operation.progress.forwarded, operation.progress.failed) == ("completed", 3, 2)
    parts = await process.recovery.outcomes(operation.number, [Outcome.FAILED])
    assert {each.id for each in parts} == set(lost)
    assert all(each.reason.startswith("could not be sent: there is no queue 'billing'") for each in parts)
    assert {(await process.summary(id_)).status for id_ in lost} == {Status.UNRESOLVED}
    assert len(await process.arrived()) == 3
    await process.broker.declare("billing")
    assert (await process.recovered()).progress.forwarded == 2
    assert len(await process.arrived("billing")) == 2


async def test_one_message_that_a_destination_refuses_costs_only_itself(process):
    """Behaviour 33, L5.8: it is tried five times, and then unresolved again; the others arrive once."""
    ids = await process.fail(6)
    asked = []
    process.refuses(lambda effect: is_for("orders", "message-4")(effect) and not asked.append(effect))
    operation = await process.recovered()
    assert (operation.progress.forwarded, operation.progress.failed) == (5, 1)
    (part,) = await process.recovery.outcomes(operation.number, [Outcome.FAILED])
    assert (part.id, part.reason) == (ids[3], "could not be sent: not that one")
    assert {each.id for each in await process.arrived()} == {f"message-{n}" for n in (1, 2, 3, 5, 6)}
    assert (await process.broker.inspect(STAGING)).ready == 0


async def test_a_message_that_is_too_large_for_its_destination_is_ejected(process):
    """Behaviour 33: with headers of ours it no longer fits; it stays a failed message."""
    await process.broker.declare("small", max_message_bytes=200)
    await process.fail(1, queue="small", body=b"x" * 190, headers={"tenant": None})
    operation = await process.recovered()
    assert operation.progress.failed == 1
    (part,) = await process.recovery.outcomes(operation.number)
    assert "could not be sent" in part.reason


async def test_a_destination_that_does_not_answer_is_asked_again(process):
    """Behaviour 33: a broker that is away for a moment ejects nobody."""
    await process.fail(3)
    process.refuses(is_for("orders"), times=2, error=EngineUnavailable("away"))
    await process.recovery.recover("status:unresolved")
    for _ in range(2):
        with pytest.raises(EngineUnavailable):
            await process.work()
    process.clock.advance(30)
    await process.work()
    (operation,) = await process.recovery.operations()
    assert (operation.progress.forwarded, operation.progress.failed) == (3, 0)
    assert len(await process.arrived()) == 3


async def test_a_message_whose_content_is_gone_is_not_sent(process):
    """Behaviour 34: it cannot be read: not sent, unresolved, with a reason; the others arrive."""
    await process.fail(3)
    number = (await process.recovery.failed())[1].number
    await process.sql("DELETE FROM @.failure_contents WHERE number = ?", number)
    operation = await process.recovered()
    assert (operation.progress.forwarded, operation.progress.failed) == (2, 1)
    (part,) = await process.recovery.outcomes(operation.number, [Outcome.FAILED])
    assert part.failure == number
    assert part.reason
    assert await process.bodies() == [b"order 1", b"order 3"]
    ((status,),) = [tuple(row) for row in await process.sql("SELECT status FROM @.failures WHERE number = ?", number)]
    assert status == Status.UNRESOLVED


async def test_a_page_of_which_nothing_can_be_read_holds_up_no_other(site):
    """Behaviour 34: also if all that is read at a time is gone."""
    process = await site.open(lanes={"page": 1})
    await process.fail(3)
    number = (await process.recovery.failed())[0].number
    await process.sql("DELETE FROM @.failure_contents WHERE number = ?", number)
    operation = await process.recovered()
    assert (operation.progress.forwarded, operation.progress.failed) == (2, 1)
    assert await process.bodies() == [b"order 2", b"order 3"]


async def test_a_pointer_to_a_batch_that_has_vanished_is_cleared(process):
    """Behaviour 35: a lane whose batch is not there goes on with the next."""
    await process.fail(1)
    await process.recovered()
    await process.sql("UPDATE @.lanes SET batch = 4711 WHERE name = 'orders'")
    await process.fail(1)
    assert (await process.recovered()).progress.forwarded == 1
    assert [each.batch for each in await process.recovery.lanes()] == [None]


async def test_a_slow_destination_holds_up_only_itself(site):
    """Behaviour 36: another destination's operation is done while the slow one goes on (their limit)."""
    process = await site.open()
    await process.fail(50, queue="billing")
    await process.fail(50)
    slow = await process.recovery.recover("queue:billing", rate=1)
    running = asyncio.create_task(process.recovery.run())
    await site.until(lambda: has_sent(process, slow.number, 2))
    quick = await process.recovery.recover("queue:orders")
    await site.until(lambda: is_over(process, quick.number))
    assert (await process.recovery.operation(slow.number)).progress.forwarded < 10
    assert len(await process.arrived()) == 50
    await stopped(process, running)


async def test_a_refusing_destination_holds_up_only_itself(site):
    """Behaviour 36: also one whose broker does not answer."""
    process = await site.open()
    await process.fail(5, queue="billing")
    await process.fail(5)
    process.refuses(is_for("billing"), error=EngineUnavailable("away"))
    operation = await process.recovery.recover("status:unresolved")
    running = asyncio.create_task(process.recovery.run())
    await site.until(lambda: has_sent(process, operation.number, 5))
    assert len(await process.arrived()) == 5
    await stopped(process, running)


async def test_everybody_sees_who_serves(site):
    """L5.5: a process is seen as long as it serves, and while nobody does everybody sees that too."""
    one, two = await site.open(), await site.open()
    assert await two.recovery.services() == []
    running = asyncio.create_task(one.recovery.run())
    await site.until(one.recovery.services)
    (seen,) = await two.recovery.services()
    assert (seen.session, bool(seen.host)) == (one.recovery.session, True)
    await site.play(site.clock.sleep_async(130))  # twice as long as one is taken for alive
    assert await two.recovery.services() == [seen]
    await stopped(one, running)
    assert await two.recovery.services() == []


async def test_a_process_that_stops_tells_the_others_of_the_work_it_leaves(process):
    """L5.5: they heard of it while this one held it, and would not look again before their poll."""

    async def stop(*_values):
        await process.broker.purge(RECOVERY_HINTS)  # every hint so far has been heard
        process.recovery.stop()

    await process.fail(3)
    operation = await process.recovery.recover("status:unresolved")
    process.at("ledger.mark", stop, when="after")
    await process.site.play(process.recovery.run())
    assert not await is_over(process, operation.number)
    assert (await process.broker.inspect(RECOVERY_HINTS)).ready == 1


async def test_a_process_that_leaves_no_work_tells_nobody(process):
    """L5.5: a service that is started anew wakes no other for nothing."""
    running = asyncio.create_task(process.recovery.run())
    await process.site.until(process.recovery.services)
    await stopped(process, running)
    assert (await process.broker.inspect(RECOVERY_HINTS)).ready == 0


async def test_a_process_that_dies_is_soon_not_seen_any_more(site):
    """L5.5: and its row goes when another process is heard of."""
    one, two = await site.open(), await site.open()
    await one.raw_ledger.present("dead", "host", 60.0)
    assert [each.session for each in await two.recovery.services()] == ["dead"]
    site.clock.advance(60)
    assert await two.recovery.services() == []
    await two.raw_ledger.present("alive", "host", 60.0)
    assert [row[0] for row in await two.sql("SELECT session FROM @.services")] == ["alive"]


async def test_a_process_that_cannot_be_seen_works_all_the_same(process):
    """L5.5: nothing depends on the list of processes."""
    process.fails("ledger.present", EngineUnavailable("away"), times=1_000)
    process.fails("ledger.absent", EngineUnavailable("away"), times=1_000)
    await process.fail(3)
    operation = await process.recovery.recover("status:unresolved")
    running = asyncio.create_task(process.recovery.run())
    await process.site.until(lambda: has_sent(process, operation.number, 3))
    await stopped(process, running)
    assert "saying that this process serves" in {getattr(each, "doing", "") for each in process.events}


async def test_many_slow_destinations_hold_up_no_other_work(site):
    """Behaviour 36: even a process that is at work in as many lanes as it may marks and archives."""
    process = await site.open(settings={"most_lanes": 2})
    for queue in ("slow-1", "slow-2"):
        await process.broker.declare(queue)
        await process.fail(30, queue=queue)
    (id_,) = await process.fail(1)
    slow = await process.recovery.recover(["0" * 32], rate=0.1) and await process.recovery.recover(
        "queue:slow-1,slow-2", rate=0.1
    )
    running = asyncio.create_task(process.recovery.run())
    await site.until(lambda: has_sent(process, slow.number, 2))
    archiving = await process.recovery.archive([id_])
    await site.until(lambda: is_over(process, archiving.number))
    assert (await process.recovery.operation(slow.number)).progress.forwarded < 10
    await stopped(process, running)


async def test_stopping_in_the_middle_of_a_batch_goes_on_later(site):
    """Behaviour 37: after a graceful stop the rest is sent with the next start, nothing twice."""
    process = await site.open()
    await process.fail(20)
    operation = await process.recovery.recover("status:unresolved", rate=2)
    running = asyncio.create_task(process.recovery.run())
    await site.until(lambda: has_sent(process, operation.number, 5))
    await stopped(process, running)
    sent = (await process.recovery.operation(operation.number)).progress.forwarded
    await process.close()
    process = await site.open()
    assert 5 <= sent < 20
    site.clock.advance(15)
    await process.work()
    operation = await process.recovery.operation(operation.number)
    assert (operation.state.word, operation.progress.forwarded) == ("completed", 20)
    arrived = [each.id for each in await process.arrived()]
    assert len(arrived) == len(set(arrived)) == 20


async def test_stopping_does_not_wait_for_the_poll(site):
    """Behaviour 37: a graceful stop returns at once, whatever its parts are waiting for."""
    process = await site.open()
    await process.fail(20)
    await process.recovery.recover("status:unresolved", rate=0.1)
    running = asyncio.create_task(process.recovery.run())
    await site.until(lambda: process.calls["ledger.reserve"])
    before = site.clock.monotonic()
    process.recovery.stop()
    await site.ticks()
    is_done = running.done()
    await site.play(running)
    assert (is_done, site.clock.monotonic() - before) == (True, 0.0)


async def test_a_process_that_was_stopped_can_work_again(process):
    """Behaviour 37: stop ends what runs; step, cancel and run after it do their work."""
    await process.fail(2)
    process.recovery.stop()
    operation = await process.recovery.recover("status:unresolved")
    await process.site.play(process.recovery.cancel(operation.number))
    assert (await process.recovery.operation(operation.number)).state.word == "cancelled"
    process.recovery.stop()
    assert (await process.recovered()).progress.forwarded == 2


async def test_a_staging_queue_that_an_operator_deletes_loses_no_message(process):
    """L5.8: whether its messages were sent is not known; they are unresolved, with that reason."""
    ids = await process.fail(4)
    process.at("ledger.staged", lambda *_: process.broker.delete(STAGING), when="after")
    operation = await process.recovered()
    assert (operation.state.word, operation.progress.failed) == ("completed", 4)
    parts = await process.recovery.outcomes(operation.number)
    assert all("vanished from the staging queue" in each.reason for each in parts)
    assert {(await process.summary(id_)).status for id_ in ids} == {Status.UNRESOLVED}
    assert (await process.recovered()).progress.forwarded == 4
    assert len(await process.arrived()) == 4


async def test_a_staging_queue_that_is_deleted_while_nobody_runs_loses_no_message(site):
    """L5.8: after a restart what was in it is not taken for sent."""
    process = await site.open()
    await process.fail(4)
    await process.recovery.recover("status:unresolved")
    process.dies("ledger.staged", when="after")
    with pytest.raises(Crash):
        await process.work()
    await site.crash()
    process = await site.open()
    await process.broker.delete(STAGING)
    site.clock.advance(60)
    await process.work()
    assert await process.arrived() == []
    assert await process.recovery.count("") == 4
    assert (await process.recovered()).progress.forwarded == 4
    assert len(await process.arrived()) == 4


async def test_two_processes_forward_nothing_twice(site):
    """L5.5: any number of processes on one database; each message arrives once."""
    processes = [await site.open() for _ in range(3)]
    for queue in ("orders", "billing"):
        await processes[0].fail(150, queue=queue)
    operations = [await processes[0].recovery.recover(f"queue:{queue}") for queue in ("orders", "billing")]
    await site.play(asyncio.gather(*(each.work() for each in processes)))
    for operation in operations:
        assert (await processes[1].recovery.operation(operation.number)).progress.forwarded == 150
    for queue in ("orders", "billing"):
        arrived = [each.id for each in await processes[2].arrived(queue)]
        assert len(arrived) == len(set(arrived)) == 150


async def test_a_process_that_was_taken_for_dead_can_do_no_harm(site):
    """L5.5: its lease ended while it was away; whatever it does after that is refused."""
    frozen, other = await site.open(), await site.open()
    await frozen.fail(5)
    operation = await frozen.recovery.recover("status:unresolved")

    async def be_away(*_values):
        site.clock.advance(16)  # no task of this process has run meanwhile: it renewed nothing
        await other.recovery.step()

    frozen.at("ledger.staged", be_away)
    await frozen.work()
    await other.work()
    operation = await other.recovery.operation(operation.number)
    assert (operation.state.word, operation.progress.forwarded) == ("completed", 5)
    arrived = [each.id for each in await other.arrived()]
    assert len(arrived) == len(set(arrived)) == 5


# --- rate


@pytest.mark.parametrize("rate", [1, 7, 25])
async def test_no_second_ever_sees_more_than_the_rate(site, rate):
    """Behaviour 45: over any window of a second, also after a restart in between, also from two operations."""
    process = await site.open(settings={"lease": 0.3}, lanes={"lock_duration": 1.0})
    times = []
    await process.fail(rate * 3)
    operation = await process.recovery.recover("status:unresolved", rate=rate)
    note_times(process, times)
    process.dies("ledger.reserve", when="after", nth=max(2, rate // max(1, rate // 10) - 1))
    with pytest.raises(Crash):
        await process.work()
    await site.crash()
    process = await site.open(lanes={"lock_duration": 1.0})
    note_times(process, times)
    site.clock.advance(0.31)  # then its lease is over, and its locks are soon
    await process.work()
    assert (await process.recovery.operation(operation.number)).progress.forwarded == len(times) == rate * 3
    assert busiest_second(times) <= rate
    assert times[-1] - times[0] < 5.0  # and it is not much slower than that


async def test_a_rate_is_kept_from_one_operation_to_the_next(process):
    """Behaviour 45: the lane remembers when it sent last."""
    times = []
    note_times(process, times)
    for _ in range(3):
        await process.fail(4)
        await process.recovered(rate=4)
    assert len(times) == 12
    assert busiest_second(times) <= 4


async def test_each_destination_has_the_rate_for_itself(process):
    """Behaviour 45: the rate is that of each destination."""
    times = {"orders": [], "billing": []}
    for queue, noted in times.items():
        await process.fail(6, queue=queue)
        note_times(process, noted, queue)
    before = process.clock.monotonic()
    await process.recovered(rate=2)
    assert process.clock.monotonic() - before < 5
    assert {queue: busiest_second(noted) for queue, noted in times.items()} == {"orders": 2, "billing": 2}


@pytest.mark.parametrize(
    ("rate", "then", "seconds"),
    [
        pytest.param(20, None, (0, 1), id="none"),
        pytest.param(20, 100, (1, 3), id="faster"),
        pytest.param(1_000, 20, (4, 8), id="slower"),
    ],
)
async def test_a_rate_can_be_changed_while_it_goes(process, rate, then, seconds):
    """Behaviour 45: within the batch that is on its way; the trail says who did it."""
    await process.fail(200)
    operation = await process.recovery.recover("status:unresolved", rate=rate)
    process.at(
        "ledger.forwarded", lambda *_: process.recovery.set_rate(operation.number, then, actor="ann"), when="after"
    )
    before = process.clock.monotonic()
    await process.work()
    assert seconds[0] <= process.clock.monotonic() - before <= seconds[1]
    assert (await process.recovery.operation(operation.number)).batches == 1
    assert (await process.recovery.trail(subject=f"operation:{operation.number}"))[0].actor == "ann"


async def test_a_rate_that_was_too_slow_is_not_waited_for_to_the_end(process):
    """Behaviour 45: with a message every 1,000 seconds, a change counts at once too."""
    await process.fail(2)
    operation = await process.recovery.recover("status:unresolved", rate=0.001)
    change = lambda *_: process.recovery.set_rate(operation.number, 1, actor="ann")  # noqa: E731
    process.at("ledger.latest", change, nth=2)
    before = process.clock.monotonic()
    await process.work()
    assert process.clock.monotonic() - before < 5


def note_times(process, times, queue="orders"):
    """Note when messages leave for a destination."""

    def note(effect):
        if is_for(queue)(effect):
            times.append(process.clock.monotonic())
        return False

    process.refuses(note)


def busiest_second(times):
    """Return the highest number of times within less than a second."""
    return max(sum(1 for each in times if start <= each < start + 0.9999) for start in times)


async def has_sent(process, number, least):
    return (await process.recovery.operation(number)).progress.forwarded >= least


async def is_over(process, number):
    return (await process.recovery.operation(number)).ended_at is not None


async def stopped(process, running):
    process.recovery.stop()
    await process.site.play(running)


async def test_a_destination_is_checked_when_it_is_chosen(process):
    """Behaviour 33: a redirect to a queue that is not there is refused before anything is stored."""
    await process.fail(1)
    with pytest.raises(QueueNotFound):
        await process.recovery.recover("status:unresolved", redirect="nowhere")
    assert await process.recovery.operations() == []
