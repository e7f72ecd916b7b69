# SPDX-License-Identifier: MIT
"""Claims and batches: a message is in one operation at a time, and whatever ends that lets go of it."""

import asyncio

import pytest

from redrive.broker import Send
from redrive.errors import EngineUnavailable, LeaseLost, OperationConflict
from redrive.recovery import OperationState, Outcome, Status
from redrive.recovery.operation import Holder, in_the_way
from tests.recovery.sites import Crash

pytestmark = pytest.mark.between_databases

UNKNOWN = "f" * 32
SET_STATUS = "UPDATE @.failures SET status = ? WHERE number = (SELECT number FROM @.failure_contents WHERE id = ?)"


async def test_two_operations_that_race_send_each_message_once(site):
    """Behaviour 17: two operations racing for the same messages: each is sent once, and each total adds up."""
    one, two = await site.open(), await site.open()
    ids = await one.fail(40)
    first = await one.recovery.recover(ids[:30])
    second = await two.recovery.recover("queue:orders")
    await site.play(asyncio.gather(one.work(), two.work()))
    first, second = [(await one.recovery.operation(each.number)).progress for each in (first, second)]
    arrived = [each.id for each in await one.arrived()]
    assert len(arrived) == len(set(arrived)) == 40
    assert (first.total, second.total) == (30, 40)
    assert first.forwarded + second.forwarded == 40
    assert first.forwarded + first.skipped == 30
    assert second.forwarded + second.skipped == 40


async def test_what_another_operation_has_is_skipped_with_its_number(process):
    """Behaviour 17: what was skipped says who had it."""
    ids = await process.fail(3)
    async with process.busy_lane("orders"):
        first = await process.recovery.recover(ids[:2])
        await process.recovery.step()
        second = await process.recovery.recover("queue:orders")
        await process.recovery.step()
    parts = await process.recovery.outcomes(second.number, [Outcome.SKIPPED])
    assert {each.id for each in parts} == set(ids[:2])
    assert {each.reason for each in parts} == {f"operation {first.number} has it"}
    await process.work()
    assert len(await process.arrived()) == 3


async def test_what_is_about_to_be_sent_is_not_taken_twice(process):
    """Behaviour 18: a message that an operation has is refused to the next, which is told of it."""
    ids = await process.fail(2)
    first = await process.recovery.recover("status:unresolved", actor="ann")
    refused = []

    async def ask_again(*_values):
        for again in (ids[:1], ids, "queue:orders"):
            with pytest.raises(OperationConflict) as caught:
                await process.recovery.recover(again)
            refused.append((caught.value.operation, "ann" in str(caught.value)))

    process.at("ledger.to_stage", ask_again)
    await process.work()
    assert refused == [(first.number, True)] * 3
    assert len(await process.arrived()) == 2


async def test_whoever_is_refused_learns_who_has_them_and_the_way_out(process):
    """Behaviour 18: every operation is named, with how far it is; what was sent can be sent once more."""
    await process.fail(2)
    await process.recovered(actor="ann")
    await process.fail(3, queue="billing")
    await process.recovered()
    with pytest.raises(OperationConflict) as caught:
        await process.recovery.recover("status:any")
    assert str(caught.value) == (
        "operation 1 (completed, requested by ann) and operation 2 (completed) sent these 5, "
        "and nothing was heard of them yet; again=True sends them once more"
    )
    found = await process.recovery.dry_run("status:any")
    assert [(each.operation, each.count, each.state.word) for each in found.holders] == [
        (1, 2, "completed"),
        (2, 3, "completed"),
    ]
    assert (found.taken, found.blocking) == (5, 1)


def held(state, number=1, count=1, actor=""):
    return Holder(operation=number, state=state, count=count, actor=actor)


@pytest.mark.parametrize(
    ("holders", "told"),
    [
        ([held(OperationState.RUNNING)], "operation 1 (running) has this one; wait for it, or cancel it"),
        (
            [held(OperationState.RUNNING, count=1_995, actor="a\nb")],
            r"operation 1 (running, requested by a\nb) has these 1,995; wait for it, or cancel it",
        ),
        ([held(OperationState.PAUSED)], "operation 1 (paused) has this one; resume it, or cancel it"),
        (
            [held(OperationState.COMPLETED)],
            "operation 1 (completed) sent this one, and nothing was heard of it yet; --again sends it once more",
        ),
        (
            [held(OperationState.COMPLETED), held(OperationState.RUNNING, 2)],
            "operation 1 (completed) and operation 2 (running) have these 2; wait for those under way, or cancel them",
        ),
        (
            [held(OperationState.COMPLETED, number) for number in range(1, 8)],
            ", ".join(f"operation {number} (completed)" for number in range(1, 6))
            + " and 2 more sent these 7, and nothing was heard of them yet; --again sends them once more",
        ),
    ],
)
def test_a_refusal_names_the_way_out(holders, told):
    assert in_the_way(holders, again="--again") == told


async def test_what_was_sent_and_not_heard_of_is_not_sent_again_unasked(process):
    """Behaviour 18: retrying a message while it is outstanding does nothing and says so."""
    ids = await process.fail(2)
    first = await process.recovered()
    assert len(await process.arrived()) == 2
    for again in (ids, ids[:1], "status:any", "status:retry-issued"):
        with pytest.raises(OperationConflict) as caught:
            await process.recovery.recover(again)
        assert caught.value.operation == first.number
    assert (await process.recovered()).progress.total == 0
    assert await process.arrived() == []


async def test_what_was_sent_and_not_heard_of_is_sent_again_when_asked(process):
    """Behaviour 58: whoever asks for it takes over what was never heard of, and both operations say so."""
    ids = await process.fail(2)
    first = await process.recovered()
    await process.arrived()
    second = await process.recovered(ids, again=True)
    assert second.progress.forwarded == 2
    assert await process.outcome_words(first.number) == {"superseded": 2}
    assert len(await process.arrived()) == 2
    parts = (await process.recovery.show(ids[0])).parts
    assert [(each.operation, each.outcome) for each in parts] == [
        (second.number, Outcome.FORWARDED),
        (first.number, Outcome.SUPERSEDED),
    ]
    assert str(second.number) in parts[1].reason


# --- behaviour 19: every way in which a message's part in an operation can end


async def succeed(process):
    await process.recovered()
    await process.succeed(*await process.arrived())
    await process.recovery.restore("status:resolved")
    await process.work()
    return Outcome.SUCCEEDED


async def fail_again(process):
    await process.recovered()
    process.clock.advance(1)
    await process.fail_again(*await process.arrived())
    return Outcome.FAILED_AGAIN


async def lose_the_destination(process):
    await process.broker.delete("orders")
    await process.recovered()
    await process.broker.declare("orders")
    return Outcome.FAILED


async def be_refused_by_the_staging_queue(process):
    process.refuses(lambda effect: isinstance(effect, Send) and effect.queue.startswith("redrive.staging"), times=6)
    await process.recovered()
    return Outcome.FAILED


async def cancel(process):
    operation = await process.recovery.recover("status:unresolved")
    process.at("ledger.staged", lambda *_: process.recovery.pause(operation.number), when="after")
    await process.work()
    await process.site.play(process.recovery.cancel(operation.number))
    return Outcome.CANCELLED


async def resolve_by_hand(process):
    await process.recovered()
    await process.arrived()
    await process.recovery.resolve("status:retry-issued")
    await process.work()
    await process.recovery.restore("status:resolved")
    await process.work()
    return Outcome.CLOSED


async def archive(process):
    await process.recovered()
    await process.arrived()
    await process.recovery.archive("status:retry-issued")
    await process.work()
    await process.recovery.restore("status:archived")
    await process.work()
    return Outcome.CLOSED


async def vanish_from_the_staging_queue(process):
    process.at("ledger.staged", lambda *_: process.broker.purge("redrive.staging/orders"), when="after")
    await process.recovered()
    return Outcome.FAILED


WAYS = [
    *(succeed, fail_again, lose_the_destination, be_refused_by_the_staging_queue, cancel, resolve_by_hand, archive),
    vanish_from_the_staging_queue,
]


@pytest.mark.parametrize("end", WAYS, ids=lambda way: way.__name__)
async def test_whatever_ends_it_lets_go_of_the_message(process, end):
    """Behaviour 19: after success, failure, refusal, cancelling and the rest, a new recovery works (their gap)."""
    (id_,) = await process.fail(1)
    outcome = await end(process)
    found = await process.recovery.show(id_)
    assert found.summary.status is Status.UNRESOLVED
    assert found.parts[-1].outcome is outcome
    again = await process.recovered()
    assert (again.progress.total, again.progress.forwarded) == (1, 1)
    assert len(await process.arrived()) == 1


async def test_word_of_an_older_operation_does_not_keep_the_claim_of_a_newer(process):
    """Behaviour 19: word of the first sending comes after the second; when that fails, the message is free."""
    (id_,) = await process.fail(1)
    await process.recovered()
    (early,) = await process.arrived()
    await process.recovered([id_], again=True)
    (late,) = await process.arrived()
    await process.succeed(early)
    assert (await process.summary(id_)).status is Status.RESOLVED
    process.clock.advance(1)
    await process.fail_again(late)
    assert (await process.summary(id_)).status is Status.UNRESOLVED
    assert (await process.recovered()).progress.forwarded == 1
    assert len(await process.arrived()) == 1


async def test_word_of_an_older_operation_leaves_nothing_pending_in_a_newer(site):
    """Behaviour 19, 41: it was staged again when the process died, and word of the first sending came meanwhile."""
    process = await site.open()
    (id_,) = await process.fail(1)
    await process.recovered()
    (early,) = await process.arrived()
    second = await process.recovery.recover([id_], again=True)
    process.dies("ledger.staged", when="after")
    with pytest.raises(Crash):
        await process.work()
    await site.crash()
    process = await site.open()
    site.clock.advance(60)
    await process.succeed(early)
    await process.work()
    second = await process.recovery.operation(second.number)
    assert second.progress.remaining == 0
    assert Outcome.PENDING not in [each.outcome for each in (await process.recovery.show(id_)).parts]
    await process.recovery.restore([id_])
    await process.work()
    await process.arrived()
    assert (await process.recovered()).progress.forwarded == 1


# --- selections


async def test_ids_that_are_unknown_or_none_at_all_are_named_and_stop_nothing(process):
    """Behaviour 20: an unknown or malformed id in a selection is reported as such; the others are sent."""
    ids = await process.fail(2)
    chosen = [ids[0], UNKNOWN, "no id", ids[1], ""]
    assert set((await process.recovery.dry_run(chosen)).unknown_ids) == {UNKNOWN, "no id", ""}
    operation = await process.recovered(chosen)
    assert set(operation.unknown_ids) == {UNKNOWN, "no id", ""}
    assert (operation.progress.total, operation.progress.forwarded) == (2, 2)
    assert len(await process.arrived()) == 2


async def test_a_selection_of_nothing_but_nonsense_is_nobody_not_everybody(process):
    """Behaviour 20: no id that makes sense selects nothing."""
    await process.fail(2)
    for nothing in ([], ["no id"], [UNKNOWN]):
        assert (await process.recovered(nothing)).progress.total == 0
    assert await process.arrived() == []


async def test_the_same_id_twice_counts_once(process):
    """Behaviour 21: duplicate ids in a request count once."""
    (id_,) = await process.fail(1)
    operation = await process.recovered([id_, id_, id_])
    assert operation.progress.total == 1
    assert len(await process.arrived()) == 1


@pytest.mark.large
async def test_two_thousand_and_one_messages_are_three_batches(process):
    """Behaviour 22: a batch has at most a thousand messages."""
    await process.fail(2_001)
    operation = await process.recovery.recover("status:unresolved")
    process.at("ledger.next_batch", lambda *_: sizes(process, operation.number, found))
    found = []
    await process.work()
    assert sorted(found) == [1, 1_000, 1_000]
    operation = await process.recovery.operation(operation.number)
    assert (operation.batches, operation.batches_left, operation.progress.forwarded) == (3, 0, 2_001)
    assert len({each.id for each in await process.arrived()}) == 2_001


async def sizes(process, operation, found):
    rows = await process.sql("SELECT count(*) FROM @.parts WHERE operation = ? GROUP BY batch", operation)
    found += [row[0] for row in rows]


@pytest.mark.large
async def test_a_selection_of_many_ids_is_cut_too(process):
    """Behaviour 22: a selection of 2,500 ids is three batches, each message sent once (they send one batch)."""
    ids = await process.fail(2_500)
    operation = await process.recovered(ids)
    assert (operation.batches, operation.progress.forwarded) == (3, 2_500)
    assert len({each.id for each in await process.arrived()}) == 2_500


# --- what changes after marking


async def test_what_was_archived_after_marking_is_not_sent(process):
    """Behaviour 23: a message archived between marking and claiming is skipped, with the reason (their gap)."""
    ids = await process.fail(3)
    operation = await process.recovery.recover("status:unresolved")

    async def archive_one(*_values):
        await process.recovery.archive(ids[:1], actor="bob")
        await process.sql(SET_STATUS, 4, ids[0])

    process.at("ledger.mark", archive_one, when="after")
    await process.work()
    (part,) = await process.recovery.outcomes(operation.number, [Outcome.SKIPPED])
    assert (part.id, part.reason) == (ids[0], "it is archived")
    assert {each.id for each in await process.arrived()} == {"message-2", "message-3"}


async def test_what_was_deleted_after_marking_has_a_row_that_says_so(process):
    """Behaviour 23: also between marking and claiming."""
    ids = await process.fail(3)
    operation = await process.recovery.recover("status:unresolved")
    number = (await process.summary(ids[1])).number
    gone = lambda *_: process.sql("DELETE FROM @.failures WHERE number = ?", number)  # noqa: E731
    process.at("ledger.mark", gone, when="after")
    await process.work()
    (part,) = await process.recovery.outcomes(operation.number, [Outcome.SKIPPED])
    assert (part.failure, part.reason) == (number, "it was deleted")
    assert len(await process.arrived()) == 2


async def test_what_was_resolved_after_claiming_is_not_sent(process):
    """Behaviour 23: a message resolved while its copy was being staged is skipped; the copy is a stray."""
    ids = await process.fail(3)
    operation = await process.recovery.recover("status:unresolved")
    process.at("ledger.staged", lambda *_: process.sql(SET_STATUS, 3, ids[1]))
    await process.work()
    (part,) = await process.recovery.outcomes(operation.number, [Outcome.SKIPPED])
    assert (part.id, part.reason) == (ids[1], "its status has changed")
    assert {each.id for each in await process.arrived()} == {"message-1", "message-3"}
    assert [each.strays for each in await process.recovery.lanes()] == [1]


# --- orphans


@pytest.mark.large
async def test_what_a_dead_process_was_marking_another_finishes(site):
    """Behaviour 38: all of it: unlike in the source document, nothing has to be asked for again."""
    dead = await site.open()
    await dead.fail(1_500)
    operation = await dead.recovery.recover("status:unresolved")
    dead.dies("ledger.mark", when="after")
    with pytest.raises(Crash):
        await dead.work()
    await dead.die()
    process = await site.open()
    site.clock.advance(20)
    await process.work()
    operation = await process.recovery.operation(operation.number)
    assert (operation.progress.forwarded, operation.batches) == (1_500, 2)
    assert len({each.id for each in await process.arrived()}) == 1_500


async def test_what_a_dead_process_marked_last_another_finishes(site):
    """Behaviour 38: also if nothing was left to mark, only to claim."""
    dead = await site.open()
    await dead.fail(3)
    operation = await dead.recovery.recover("status:unresolved")
    dead.dies("ledger.claim", nth=2)
    with pytest.raises(Crash):
        await dead.work()
    await dead.die()
    process = await site.open()
    site.clock.advance(20)
    await process.work()
    assert (await process.recovery.operation(operation.number)).progress.forwarded == 3


@pytest.mark.parametrize("fault", [None, EngineUnavailable("away"), TypeError("a fault of ours")])
async def test_a_live_neighbour_is_left_alone(site, fault):
    """L5.5: a process that is slow, and renews its lease, is not taken for dead; nor if a renewal fails."""
    slow, quick = await site.open(), await site.open()
    await slow.fail(3)
    if fault is not None:
        slow.fails("ledger.renew", fault)
    await slow.recovery.recover("status:unresolved")
    sessions = []

    async def be_slow(*_values):
        for _ in range(10):
            await slow.clock.sleep_async(5.0)
        await quick.recovery.step()
        sessions.extend(each.session for each in await quick.recovery.lanes())

    slow.at("ledger.staged", be_slow, when="after")
    await slow.work()
    assert sessions == [slow.recovery.session]
    assert len(await slow.arrived()) == 3


# --- a clock that is set back


async def test_a_lease_of_a_dead_process_ends_although_the_clock_was_set_back(site):
    """F9: an hour back costs the time of one lease, not an hour."""
    process = await site.open()
    ledger = process.raw_ledger
    dead = await ledger.hold("lane/orders", "dead", 15.0)
    site.clock.jump(-3_600)
    assert await ledger.hold("lane/orders", "alive", 15.0) is None
    site.clock.advance(14.9)
    assert await ledger.hold("lane/orders", "alive", 15.0) is None
    site.clock.advance(0.2)
    taken = await ledger.hold("lane/orders", "alive", 15.0)
    assert taken is not None
    with pytest.raises(LeaseLost):
        await ledger.count_strays(dead, "orders", 1)
    await ledger.count_strays(taken, "orders", 1)


async def test_a_lease_of_a_process_that_lives_stays_its_own_when_the_clock_is_set_back(site):
    """F9: never two at once, whoever asks how often."""
    process = await site.open()
    ledger = process.raw_ledger
    mine = await ledger.hold("lane/orders", "mine", 15.0)
    site.clock.jump(-3_600)
    for _ in range(20):
        assert await ledger.hold("lane/orders", "other", 15.0) is None
        await ledger.count_strays(mine, "orders", 0)
        site.clock.advance(5.0)
        await ledger.renew(mine, 15.0)


async def test_an_operation_of_a_dead_process_goes_on_although_the_clock_was_set_back(site):
    """F9: with a rate as well; leases, the lane's next moment and what is locked are behind us in half a minute."""
    process = await site.open()
    await process.fail(6)
    operation = await process.recovery.recover("status:unresolved", rate=2)
    process.dies("ledger.forwarded", nth=2)
    with pytest.raises(Crash):
        await process.work()
    site.clock.jump(-3_600)
    other = await site.open()
    began = site.clock.monotonic()
    while not (await other.recovery.operation(operation.number)).is_over:
        step = await other.recovery.step()
        assert step or step.next_in is not None
        site.clock.advance(step.next_in or 0.0)
        assert site.clock.monotonic() - began < 60
    assert (await other.recovery.operation(operation.number)).progress.forwarded == 6


async def test_who_is_gone_is_not_seen_for_long_although_the_clock_was_set_back(site):
    """F9: the list of who serves is kept by those who serve."""
    process = await site.open()
    ledger = process.raw_ledger
    await ledger.present("dead", "host", 30.0)
    site.clock.jump(-3_600)
    await ledger.present("alive", "host", 30.0)
    site.clock.advance(31.0)
    await ledger.present("alive", "host", 30.0)
    assert [each.session for each in await ledger.services()] == ["alive"]
