# SPDX-License-Identifier: MIT
"""The life of an operation: durable before it is answered, honest figures, pause, cancel, canaries, history.

That the figures add up and never go backwards is checked after every change of the ledger, in every test that has a
site (``Figures`` in ``sites.py``); so is that an operation which is over has nothing left.
"""

import asyncio
from datetime import datetime, timedelta

import pytest

from redrive.broker import Send
from redrive.clock import utc
from redrive.errors import InvalidSetting, OperationConflict, OperationNotFound
from redrive.recovery import Canary, Filter, Kind, OperationChanged, OperationState, Outcome, Status, Step
from tests.recovery.sites import Crash


async def test_a_request_survives_a_kill_right_after_its_answer(site):
    """Behaviour 38: stored before it is answered; after a restart all of it is done (their gap)."""
    process = await site.open()
    await process.fail(3)
    operation = await process.recovery.recover("status:unresolved", actor="ann", reason="stock is back", key="k-1")
    await site.crash()
    process = await site.open()
    found = await process.recovery.operation(operation.number)
    assert (found.actor, found.reason, found.key, found.progress.total) == ("ann", "stock is back", "k-1", 3)
    await process.work()
    assert (await process.recovery.operation(operation.number)).progress.forwarded == 3
    assert len(await process.arrived()) == 3


@pytest.mark.large
async def test_progress_goes_forward_only_to_the_end(process):
    """Behaviour 39, 41: looked at after every change, it never falls, and ends at 1."""
    await process.fail(2_500)
    operation = await process.recovery.recover("status:unresolved")
    shares = []

    async def look(*_values):
        found = (await process.recovery.operation(operation.number)).progress
        shares.append(found.share)

    for verb in ("mark", "claim", "staged", "forwarded", "finish"):
        for nth in range(1, 8):
            process.at(f"ledger.{verb}", look, when="after", nth=nth)
    await process.work()
    await look()
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert len(set(shares)) > 3


@pytest.mark.large
async def test_after_a_restart_the_figures_are_what_they_were(site):
    """Behaviour 40: totals and finished counts do not shrink (their gap)."""
    process = await site.open()
    await process.fail(2_100)
    operation = await process.recovery.recover("status:unresolved")
    process.dies("ledger.finish", when="after", nth=2)
    with pytest.raises(Crash):
        await process.work()
    before = await process.raw_ledger.operation(operation.number)
    await site.crash()
    process = await site.open()
    after = await process.recovery.operation(operation.number)
    assert before.progress == after.progress
    assert (after.progress.total, after.batches, after.batches_left) == (2_100, before.batches, before.batches_left)
    assert after.progress.forwarded >= 1_000
    site.clock.advance(60)
    await process.work()
    assert (await process.recovery.operation(operation.number)).progress.forwarded == 2_100


async def test_every_message_of_an_operation_can_be_listed_by_what_became_of_it(process):
    """Behaviour 42: sent, skipped, failed, succeeded, failed again: each in one list, each list by pages."""
    ids = await process.fail(6)
    await process.recovery.archive(ids[:1])
    await process.work()
    process.refuses(
        lambda effect: isinstance(effect, Send) and effect.queue == "orders" and effect.message.id == "message-2"
    )
    operation = await process.recovered(ids)
    arrived = {each.id: each for each in await process.arrived()}
    await process.succeed(arrived["message-3"])
    process.clock.advance(1)
    await process.fail_again(arrived["message-4"])
    expected = {
        Outcome.SKIPPED: ids[:1],
        Outcome.FAILED: ids[1:2],
        Outcome.SUCCEEDED: ids[2:3],
        Outcome.FAILED_AGAIN: ids[3:4],
        Outcome.FORWARDED: ids[4:],
    }
    for outcome, listed in expected.items():
        found = await process.recovery.outcomes(operation.number, [outcome])
        assert [each.id for each in found] == listed
        assert await process.recovery.count(f"status:any operation:{operation.number} outcome:{outcome.word}") == len(
            listed
        )
    pages, after = [], 0
    while page := await process.recovery.outcomes(operation.number, after=after, limit=4):
        pages += [each.id for each in page]
        after = page[-1].failure
    assert pages == ids
    found = (await process.recovery.operation(operation.number)).progress
    assert (found.total, found.forwarded, found.skipped, found.failed) == (6, 4, 1, 1)
    assert (found.succeeded, found.failed_again, found.waiting) == (1, 1, 2)


# --- cancel, pause


@pytest.mark.large
async def test_nothing_is_sent_after_cancel_has_returned(site):
    """Behaviour 43: no send after the answer; what was sent is listed, the rest is free."""
    process, other = await site.open(), await site.open()
    ids = await process.fail(30)
    operation = await process.recovery.recover("status:unresolved", rate=5)
    running = asyncio.create_task(process.recovery.run())
    await site.until(lambda: process.calls["ledger.forwarded"] >= 3)
    cancelled = await site.play(other.recovery.cancel(operation.number, actor="ann", reason="wrong group"))
    sent = len(await other.arrived())
    assert cancelled.state is OperationState.CANCELLED
    assert (cancelled.state_reason or "wrong group") == "wrong group"
    assert cancelled.progress.forwarded == sent
    assert cancelled.progress.cancelled == 30 - sent
    assert 3 <= sent < 30
    site.clock.advance(60)
    await site.ticks()
    assert await other.arrived() == []
    process.recovery.stop()
    await site.play(running)
    assert len(await other.recovery.outcomes(operation.number, [Outcome.FORWARDED])) == sent
    assert {(await other.summary(id_)).status for id_ in ids[sent:]} == {Status.UNRESOLVED}
    assert (await other.recovered()).progress.forwarded == 30 - sent


@pytest.mark.parametrize("moment", ["ledger.mark", "ledger.claim", "ledger.to_stage", "ledger.staged", "ledger.finish"])
async def test_cancelling_at_any_moment_leaves_everything_free_or_sent(process, moment):
    """Behaviour 43: whatever it was doing, each message is sent once and listed, or unresolved and free."""
    await process.fail(120)
    operation = await process.recovery.recover("status:unresolved")
    ledger = process.raw_ledger
    from redrive.recovery.states import OperationEvent

    process.at(moment, lambda *_: ledger.change(operation.number, OperationEvent.CANCEL, actor="ann"))
    await process.work()
    operation = await process.recovery.operation(operation.number)
    sent = len({each.id for each in await process.arrived()})
    assert operation.state is OperationState.CANCELLED
    assert operation.progress.forwarded == sent
    assert operation.progress.cancelled == 120 - sent
    assert await process.recovery.count("") == 120 - sent
    again = await process.recovered()
    assert again.progress.forwarded == 120 - sent
    assert len(await process.arrived()) == 120 - sent


async def test_an_operation_that_is_over_cannot_be_cancelled(process):
    """Behaviour 43: what is over stays as it is, and the trail says who tried."""
    await process.fail(1)
    operation = await process.recovered()
    with pytest.raises(OperationConflict, match="cannot be cancelled: it is completed"):
        await process.recovery.cancel(operation.number, actor="bob")
    assert (await process.recovery.trail())[0].outcome.startswith("refused: operation")
    with pytest.raises(OperationNotFound):
        await process.recovery.cancel(4711)


async def test_a_pause_survives_a_restart(site):
    """Behaviour 44: nothing is sent while it is paused; resumed elsewhere, it sends the rest, nothing twice."""
    process = await site.open()
    await process.fail(30)
    operation = await process.recovery.recover("status:unresolved", rate=10)
    pausing = lambda *_: process.recovery.pause(operation.number, actor="ann", reason="lunch")  # noqa: E731
    process.at("ledger.forwarded", pausing, when="after", nth=4)
    await process.work()
    paused = await process.recovery.operation(operation.number)
    assert (paused.state, paused.state_reason, paused.progress.forwarded) == (OperationState.PAUSED, "lunch", 4)
    assert (await process.broker.inspect("redrive.staging/orders")).ready == 0
    await site.crash()
    process = await site.open()
    site.clock.advance(100)
    await process.work()
    assert (await process.recovery.operation(operation.number)).progress == paused.progress
    await process.recovery.resume(operation.number, actor="ben")
    await process.work()
    operation = await process.recovery.operation(operation.number)
    assert (operation.state.word, operation.progress.forwarded) == ("completed", 30)
    arrived = [each.id for each in await process.arrived()]
    assert len(arrived) == len(set(arrived)) == 30


async def test_a_paused_operation_keeps_its_messages(process):
    """Behaviour 44: others do not get them, and are told who has them."""
    ids = await process.fail(3)
    operation = await process.recovery.recover("status:unresolved")
    process.at("ledger.staged", lambda *_: process.recovery.pause(operation.number), when="after")
    await process.work()
    with pytest.raises(OperationConflict) as caught:
        await process.recovery.recover(ids)
    assert caught.value.operation == operation.number
    await process.site.play(process.recovery.cancel(operation.number))
    assert (await process.recovered(ids)).progress.forwarded == 3


# --- canaries


async def watched(process, **canary):
    """Send the canaries of an operation; return it, and the canaries."""
    ids = await process.fail(20)
    operation = await process.recovery.recover("status:unresolved", canary=Canary(**{"count": 3, **canary}))
    await process.work()
    sent = await process.arrived()
    operation = await process.recovery.operation(operation.number)
    assert (operation.state, operation.progress.forwarded, len(sent)) == (OperationState.WATCHING, 3, 3)
    assert set(await process.ids_of(*(each.id for each in sent))) == set(ids[:3])
    return operation, sent


async def test_canaries_that_do_well_let_the_rest_follow(process):
    """Behaviour 46: the first k are sent, the rest waits for all of them to succeed."""
    operation, sent = await watched(process)
    await process.succeed(*sent[:2])
    await process.work()
    assert await process.arrived() == []
    await process.succeed(sent[2])
    await process.work()
    operation = await process.recovery.operation(operation.number)
    assert (operation.state.word, operation.progress.forwarded) == ("completed", 20)
    assert len(await process.arrived()) == 17


async def test_canaries_that_do_badly_stop_the_rest(process):
    """Behaviour 46: one failure is enough, before the others are heard of; it says why, and can be resumed."""
    operation, sent = await watched(process)
    process.clock.advance(1)
    await process.fail_again(sent[0])
    await process.work()
    operation = await process.recovery.operation(operation.number)
    assert operation.state is OperationState.PAUSED
    assert operation.state_reason == "1 of the first 3 failed again"
    entry = (await process.recovery.trail())[0]
    assert (entry.action, entry.actor, entry.reason, entry.outcome) == ("stop", "", operation.state_reason, "paused")
    assert await process.arrived() == []
    assert [each.state for each in process.events if isinstance(each, OperationChanged)][-1] == "paused"
    await process.recovery.resume(operation.number, actor="ann")
    await process.work()
    assert len(await process.arrived()) == 17


async def test_as_many_canaries_may_fail_as_was_said(process):
    """Behaviour 46: the rule is the requester's."""
    _, sent = await watched(process, max_failures=1)
    process.clock.advance(1)
    await process.fail_again(sent[0])
    await process.work()
    assert await process.arrived() == []
    await process.succeed(*sent[1:])
    await process.work()
    assert len(await process.arrived()) == 17


async def test_silence_of_the_canaries_is_no_success(process):
    """Behaviour 46: after the patience that was asked for, the rest is stopped, not sent."""
    operation, sent = await watched(process, patience=60)
    await process.succeed(sent[0])
    process.clock.advance(59)
    await process.work()
    assert (await process.recovery.operation(operation.number)).state is OperationState.WATCHING
    process.clock.advance(2)
    await process.work()
    operation = await process.recovery.operation(operation.number)
    assert (operation.state, operation.state_reason) == (
        OperationState.PAUSED,
        "nothing was heard of 2 of the first messages for 60 s",
    )
    assert await process.arrived() == []


async def test_canaries_are_waited_for_by_whoever_is_there(site):
    """Behaviour 46: the process that sent them dies; another goes on when they have done well."""
    process = await site.open()
    operation, sent = await watched(process)
    await site.crash()
    process = await site.open()
    site.clock.advance(30)
    await process.succeed(*sent)
    await process.work()
    assert (await process.recovery.operation(operation.number)).progress.forwarded == 20


@pytest.mark.parametrize("how", [{}, {"at": 5}])
async def test_pausing_before_the_canaries_have_gone_does_not_do_without_them(process, how):
    """Behaviour 46: nobody has judged anything yet; after resuming the canaries go first."""
    await process.fail(20)
    operation = await process.recovery.recover("status:unresolved", canary=2, **how)
    await process.recovery.pause(operation.number)
    await process.work()
    await process.recovery.resume(operation.number)
    process.clock.advance(10)
    await process.work()
    assert len(await process.arrived()) == 2
    assert (await process.recovery.operation(operation.number)).state is OperationState.WATCHING


async def test_canaries_for_several_destinations(process):
    """Behaviour 46: they are the oldest messages, wherever they go."""
    await process.fail(1)
    await process.fail(1, queue="billing")
    await process.fail(5)
    operation = await process.recovered(canary=2)
    assert operation.state is OperationState.WATCHING
    sent = [*await process.arrived(), *await process.arrived("billing")]
    assert len(sent) == 2
    await process.succeed(*sent)
    await process.work()
    assert len(await process.arrived()) == 5


# --- dry run, cut-off, keys


async def test_a_dry_run_counts_what_the_real_run_finds(process):
    """Behaviour 47: and changes nothing."""
    ids = await process.fail(5)
    await process.fail(3, queue="billing")
    await process.recovery.redirect("billing", "orders")
    await process.recovery.archive(ids[:2])
    await process.work()
    dry = await process.recovery.dry_run([*ids, "nonsense"])
    assert (dry.matched, dry.free, dry.taken, dry.by_destination) == (5, 3, 0, {"orders": 3})
    assert list(dry.unknown_ids) == ["nonsense"]
    dry = await process.recovery.dry_run("")
    assert (dry.matched, dry.free, dry.by_destination) == (6, 6, {"orders": 6})
    assert [each.plan.kind.value for each in await process.recovery.operations()] == ["archive"]
    real = await process.recovered()
    assert (real.progress.total, real.progress.forwarded) == (dry.matched, dry.free)
    assert len(await process.arrived()) == dry.by_destination["orders"]


async def still_failing(process, *chosen, **how):
    found = (await process.recovery.dry_run(*chosen, **how)).still_failing
    return [(each.destination, each.exception_type.rpartition(".")[2], each.count) for each in found]


async def test_a_dry_run_says_where_messages_still_fail_with_the_same_exception(process):
    """Ten minutes after the last such failure it does so no more; another exception is no matter."""
    await process.fail(2)
    await process.fail(1, queue="billing")
    process.clock.advance(590)
    await process.fail(1, kind="shop.errors.NoCredit")
    assert await still_failing(process, "exception:NoStock") == [("billing", "NoStock", 1), ("orders", "NoStock", 2)]
    process.clock.advance(20)
    assert await still_failing(process, "exception:NoStock") == []
    assert await still_failing(process, "") == [("orders", "NoCredit", 1)]
    await process.fail(1)
    assert await still_failing(process, "queue:orders") == [("orders", "NoCredit", 1), ("orders", "NoStock", 3)]


async def test_a_dry_run_looks_at_the_queue_that_messages_would_go_to(process):
    await process.fail(1)
    assert await still_failing(process, "", redirect="billing") == []
    await process.fail(1, queue="billing")
    assert await still_failing(process, "queue:orders", redirect="billing") == [("billing", "NoStock", 1)]
    assert await still_failing(process, "queue:orders", Kind.ARCHIVE) == []


async def test_a_dry_run_knows_what_others_have(process):
    """Behaviour 47: what is taken is counted as such, with the operation that has it."""
    ids = await process.fail(5)
    async with process.busy_lane("orders"):
        first = await process.recovery.recover(ids[:2])
        await process.recovery.step()
        dry = await process.recovery.dry_run("queue:orders")
        assert (dry.matched, dry.free, dry.taken, dry.blocking) == (5, 3, 2, first.number)
        second = await process.recovery.recover("queue:orders")
        await process.recovery.step()
    found = (await process.recovery.operation(second.number)).progress
    assert (found.total, found.skipped, found.remaining) == (5, 2, 3)


async def test_what_is_gone_before_its_turn_is_accounted_for(process):
    """L5.11: whatever becomes of a message between the request and its turn, it has a row that says so."""
    ids = await process.fail(5)
    operation = await process.recovery.recover("status:unresolved")
    await process.recovery.pause(operation.number)
    await process.recovery.archive(ids[:2])
    await process.recovery.resolve(ids[2:3])
    await process.work()
    gone = (await process.summary(ids[3])).number
    await process.sql("DELETE FROM @.failures WHERE number = ?", gone)
    await process.recovery.resume(operation.number)
    await process.work()
    progress = (await process.recovery.operation(operation.number)).progress
    assert (progress.total, progress.forwarded, progress.skipped, progress.remaining) == (5, 1, 4, 0)
    told = [each.reason for each in await process.recovery.outcomes(operation.number)]
    assert told == ["it is archived", "it is archived", "it is resolved", "it was deleted", ""]


async def test_a_cancelled_operation_has_a_row_for_each_message(process):
    """L5.11: also for those whose turn never came."""
    ids = await process.fail(30)
    operation = await process.recovery.recover("status:unresolved", canary=2)
    await process.recovery.step()
    cancelled = await process.site.play(process.recovery.cancel(operation.number))
    assert (cancelled.progress.total, cancelled.progress.forwarded, cancelled.progress.cancelled) == (30, 2, 28)
    parts = await process.recovery.outcomes(operation.number, [Outcome.CANCELLED])
    assert [each.id for each in parts] == ids[2:]
    assert {each.reason for each in parts} == {"the operation was cancelled"}
    assert (await process.recovered()).progress.forwarded == 28


@pytest.mark.parametrize("limit", [1, 4, 10, 12, 20, 50])
async def test_a_dry_run_with_a_limit_says_what_the_real_run_does(process, limit):
    """Behaviour 47: also when another operation has some of the oldest."""
    ids = await process.fail(10)
    await process.fail(5, queue="billing")
    async with process.busy_lane("orders"):
        await process.recovery.recover(ids[:5])
        await process.recovery.step()
        dry = await process.recovery.dry_run("", limit=limit)
        assert sum(dry.by_destination.values()) == dry.free
        real = await process.recovery.recover("status:unresolved", limit=limit)
        await process.recovery.step()
    found = (await process.recovery.operation(real.number)).progress
    assert (found.total, found.skipped) == (dry.matched, dry.matched - dry.free)
    assert dry.free == min(limit, 10)


async def test_a_limit_takes_the_oldest_and_the_next_request_goes_on(process):
    """Behaviour 22: first ten, then the next ten, as many times as one likes."""
    await process.fail(25)
    for expected in (10, 10, 5, 0):
        assert (await process.recovered(limit=10)).progress.forwarded == expected
    assert len(await process.arrived()) == 25


async def test_what_fails_after_the_request_is_not_part_of_it(process):
    """Behaviour 48: and the operation says how many came since."""
    ids = await process.fail(3)
    operation = await process.recovery.recover("status:unresolved")
    await process.fail(2)
    await process.broker.send(
        "error", process.site.failed_message(id="message-1", body=b"order 1")
    )  # this one fails once more
    await process.recovery.ingest()
    found = await process.recovery.operation(operation.number)
    assert (found.progress.total, found.newcomers) == (3, 3)
    await process.work()
    found = await process.recovery.operation(operation.number)
    assert (found.progress.total, found.progress.forwarded, found.progress.skipped) == (3, 2, 1)
    (part,) = await process.recovery.outcomes(operation.number, [Outcome.SKIPPED])
    assert (part.id, part.reason) == (ids[0], "it has changed since the request")
    assert {each.id for each in await process.arrived()} == {"message-2", "message-3"}
    assert await process.recovery.count("") == 3
    assert (await process.summary(ids[0])).status is Status.UNRESOLVED


async def test_the_same_key_gives_the_same_operation(process):
    """Behaviour 49: whatever became of it meanwhile; and nothing is sent twice."""
    await process.fail(3)
    first = await process.recovery.recover("status:unresolved", key="order-66", actor="ann")
    assert (await process.recovery.recover("status:unresolved", key="order-66")).number == first.number
    await process.work()
    again = await process.recovery.recover("status:unresolved", key="order-66")
    assert (again.number, again.state.word) == (first.number, "completed")
    assert len(await process.recovery.operations()) == 1
    with pytest.raises(OperationConflict, match="'order-66'"):
        await process.recovery.recover("queue:billing", key="order-66")


@pytest.mark.parametrize(
    ("chosen", "how"),
    [
        ("age<2h", {}),
        (Filter(age_max="2h"), {}),
        ("status:unresolved", {"at": 60}),
        (Filter(), {"at": timedelta(hours=1)}),
    ],
)
async def test_the_same_key_is_the_same_request_a_moment_later(process, chosen, how):
    """Behaviour 49: a client that repeats a request with a relative time means the same."""
    await process.fail(2)
    first = await process.recovery.recover(chosen, key="k", **how)
    process.clock.advance(2)
    assert (await process.recovery.recover(chosen, key="k", **how)).number == first.number


@pytest.mark.parametrize("kind", ["recover", "archive", "resolve", "restore"])
@pytest.mark.parametrize("nothing", ["", "  \n"])
async def test_an_empty_text_does_not_mean_everything(process, kind, nothing):
    """A variable that happens to be empty is refused, and the refusal says how to mean everything."""
    await process.fail(2)
    with pytest.raises(InvalidSetting, match="'status:unresolved' is every unresolved one"):
        await getattr(process.recovery, kind)(nothing)
    assert await process.recovery.operations() == []
    assert (await process.recovery.dry_run(nothing)).matched == 2, "looking is free"


async def test_a_time_without_a_zone_is_named_as_it_was_given(process):
    with pytest.raises(InvalidSetting, match=r"must have a time zone: datetime\.now\(UTC\)") as caught:
        await process.recovery.recover("queue:orders", at=datetime(2026, 11, 1))  # noqa: DTZ001 - that is the point
    assert caught.value.setting == "at"


async def test_what_sends_nothing_can_be_limited(process):
    ids = await process.fail(3)
    operation = await process.recovery.archive("status:unresolved", limit=2, key="k")
    assert (await process.recovery.archive("status:unresolved", limit=2, key="k")).number == operation.number
    await process.work()
    assert [(await process.summary(id_)).status for id_ in ids] == [Status.ARCHIVED, Status.ARCHIVED, Status.UNRESOLVED]
    with pytest.raises(InvalidSetting, match="limit"):
        await process.recovery.archive("status:unresolved", limit=0)


async def test_an_age_is_counted_from_the_request(process):
    """Whatever is old enough by the time of the work was not when somebody asked."""
    await process.fail(2)
    process.clock.advance(7_200)
    await process.fail(1)
    asked = utc(process.clock.time())
    assert (await process.recovery.dry_run(Filter(age_min="1h"))).matched == 2
    operation = await process.recovery.recover("age>1h", actor="ann")
    assert operation.plan.filter == Filter(failed_until=asked - timedelta(hours=1))
    process.clock.advance(7_200)
    await process.work()
    assert (await process.recovery.operation(operation.number)).progress.total == 2


async def test_a_text_read_earlier_is_the_same_request_by_its_words(process):
    """Behaviour 49: who reads a filter once, to show it before it acts, repeats the request with the same key."""
    await process.fail(2)
    first = await process.recovery.recover(Filter.parse("age<2h", now=utc(process.clock.time())), key="k")
    process.clock.advance(2)
    again = await process.recovery.recover(Filter.parse("age<2h", now=utc(process.clock.time())), key="k")
    assert (again.number, again.plan) == (first.number, first.plan)
    assert (await process.recovery.recover("age<2h", key="k")).number == first.number


async def test_the_same_key_is_the_same_request_after_its_rate_was_changed(process):
    """Behaviour 49: what was asked for is compared, not what it is now."""
    await process.fail(2)
    first = await process.recovery.recover("status:unresolved", key="k", rate=5)
    await process.recovery.set_rate(first.number, 10)
    assert (await process.recovery.recover("status:unresolved", key="k", rate=5)).number == first.number


async def test_two_requests_with_one_key_at_once_are_one(site):
    """Behaviour 49: also from two processes at the same moment."""
    one, two = await site.open(), await site.open()
    await one.fail(2)
    made = await asyncio.gather(*(each.recovery.recover("status:unresolved", key="k") for each in (one, two, one, two)))
    assert len({each.number for each in made}) == 1


async def test_an_identical_request_is_refused_while_the_first_is_under_way(process):
    """Behaviour 18: without a key the second is told of the first."""
    await process.fail(3)
    first = await process.recovery.recover("status:unresolved", actor="ann")
    with pytest.raises(OperationConflict, match="requested by ann") as caught:
        await process.recovery.recover("status:unresolved")
    assert caught.value.operation == first.number
    await process.work()
    assert (await process.recovered()).progress.total == 0


@pytest.mark.parametrize(("first", "second"), [("recover", "archive"), ("archive", "recover"), ("resolve", "archive")])
async def test_two_kinds_of_operation_on_the_same_messages_are_refused(process, first, second):
    """Behaviour 50: the refusal names the operation that stands in the way, whatever the filters look like."""
    ids = await process.fail(3)
    blocking = await getattr(process.recovery, first)("status:unresolved", actor="ann")
    with pytest.raises(OperationConflict) as caught:
        await getattr(process.recovery, second)("status:unresolved")
    assert caught.value.operation == blocking.number
    assert "ann" in str(caught.value)
    refusal = (await process.recovery.trail())[0]
    assert (refusal.action, refusal.outcome) == (second, f"refused: {caught.value}")
    await process.work()
    assert {(await process.summary(id_)).status for id_ in ids} != {Status.UNRESOLVED}


async def test_archiving_what_is_being_recovered_is_refused(process):
    """Behaviour 50: also with another filter, once its messages are claimed."""
    ids = await process.fail(3)
    async with process.busy_lane("orders"):
        blocking = await process.recovery.recover("queue:orders")
        await process.recovery.step()
        for kind in ("archive", "resolve"):
            with pytest.raises(OperationConflict) as caught:
                await getattr(process.recovery, kind)(ids)
            assert caught.value.operation == blocking.number
    await process.work()
    assert len(await process.arrived()) == 3


# --- the end, and after it


async def test_completion_is_recorded_once_with_everything_about_it(process):
    """Behaviour 51: who, why, when it began and ended, the counts; and it is told once."""
    await process.fail(3)
    asked_at = process.clock.time()
    operation = await process.recovery.recover("status:unresolved", actor="ann", reason="stock is back")
    process.clock.advance(5)
    await process.work()
    ended_at = process.clock.time()
    process.clock.advance(5)
    await process.work()
    found = await process.recovery.operation(operation.number)
    assert (found.actor, found.reason, found.progress.forwarded) == ("ann", "stock is back", 3)
    assert (found.requested_at, found.started_at) == (utc(asked_at), utc(asked_at + 5))
    assert found.started_at <= found.ended_at <= utc(ended_at)
    told = [(each.operation, each.state) for each in process.events if isinstance(each, OperationChanged)]
    assert told == [(operation.number, "running"), (operation.number, "completed")]


@pytest.mark.parametrize("kind", ["recover", "archive", "resolve", "restore"])
async def test_every_kind_of_operation_can_be_acknowledged(process, kind):
    """Behaviour 52: once it is over, by somebody."""
    await process.fail(2)
    if kind == "restore":
        await process.recovery.archive("status:unresolved")
        await process.work()
    operation = await getattr(process.recovery, kind)(f"status:{'archived' if kind == 'restore' else 'unresolved'}")
    with pytest.raises(OperationConflict, match="cannot be acknowledged yet"):
        await process.recovery.acknowledge(operation.number, actor="bob")
    await process.work()
    await process.recovery.acknowledge(operation.number, actor="bob")
    assert (await process.recovery.operation(operation.number)).acknowledged_by == "bob"


async def test_history_is_in_order_by_pages_and_goes_with_the_sweep(process):
    """Behaviour 53: newest first, ties by number; what is kept is a matter of age, down to nothing."""
    for _ in range(5):
        await process.fail(1)
        await process.recovered()
        await process.succeed(*await process.arrived())
    first = await process.recovery.operations(limit=2)
    rest = await process.recovery.operations(before=first[-1].number)
    assert [each.number for each in [*first, *rest]] == [5, 4, 3, 2, 1]
    assert await process.recovery.operations(is_open=True) == []
    process.clock.advance(10)
    await process.fail(1)
    open_one = await process.recovery.recover("status:unresolved", at=1_000)
    await process.recovery.sweep(5)
    assert [each.number for each in await process.recovery.operations()] == [open_one.number]


@pytest.mark.parametrize("kind", ["recover", "archive", "resolve", "restore"])
async def test_an_operation_on_nothing_is_over_at_once(process, kind):
    """Behaviour 54: completed when it is answered, at 100 %."""
    operation = await getattr(process.recovery, kind)("queue:nowhere")
    assert operation.state is OperationState.COMPLETED
    assert (operation.progress.total, operation.progress.share) == (0, 1.0)
    assert operation.ended_at == operation.requested_at


async def test_a_scheduled_operation_begins_when_it_is_due(process):
    """L5.11: not before; and with the messages that were there when it was asked for."""
    await process.fail(2)
    operation = await process.recovery.recover("status:unresolved", at=timedelta(hours=1))
    assert operation.state is OperationState.SCHEDULED
    await process.fail(1)
    process.clock.advance(3_590)
    await process.work()
    assert await process.arrived() == []
    process.clock.advance(11)
    await process.work()
    assert len(await process.arrived()) == 2


async def test_a_running_process_begins_a_scheduled_operation_by_itself(site):
    """L5.12: the time it is due is an alarm, not a matter of the poll."""
    process = await site.open(settings={"poll": 10_000.0})
    await process.fail(2)
    running = asyncio.create_task(process.recovery.run())
    await site.ticks()
    await process.recovery.recover("status:unresolved", at=100)
    asked = site.clock.monotonic()
    await site.until(lambda: process.calls["ledger.staged"], every=1.0)
    assert 100 <= site.clock.monotonic() - asked < 110
    process.recovery.stop()
    await site.play(running)


async def test_a_request_in_one_process_wakes_another(site):
    """L5.12: the idle wait is a signal; the poll is only the safety net."""
    worker, asker = await site.open(settings={"poll": 10_000.0}), await site.open()
    await asker.fail(3)
    running = asyncio.create_task(worker.recovery.run())
    await site.ticks()
    await asker.recovery.recover("status:unresolved")
    asked = site.clock.monotonic()
    await site.until(lambda: worker.calls["ledger.finish"])
    assert site.clock.monotonic() - asked < 10
    assert len(await asker.arrived()) == 3
    worker.recovery.stop()
    await site.play(running)


async def test_an_operation_can_be_followed_to_its_end(process):
    """Behaviour 39: who follows it sees it again and again, and then its end."""
    await process.fail(5)
    operation = await process.recovery.recover("status:unresolved", rate=2)

    async def follow():
        return [each.state.word async for each in process.recovery.follow(operation.number)]

    following = asyncio.create_task(follow())
    await process.work()
    seen = await process.site.play(following)
    assert seen[-1] == "completed"
    assert len(seen) > 2


@pytest.mark.parametrize(("taken", "between"), [(0.0, 0.5), (0.1, 1.1), (2.0, 22.0)])
async def test_following_takes_a_tenth_of_the_time_at_most(process, taken, between):
    """Behaviour 39: to count a million messages takes a while, and the work should not wait for that."""
    await process.fail(1)
    operation = await process.recovery.recover("status:unresolved", at=1_000)
    looks = []

    def look(*_values):
        looks.append(process.clock.monotonic())
        process.clock.advance(taken)

    async def follow():
        async for _ in process.recovery.follow(operation.number):
            process.at("ledger.operation", look)
            if len(looks) == 3:
                return

    await process.site.play(follow())
    assert looks[2] - looks[1] == pytest.approx(between)


@pytest.mark.parametrize(
    "how",
    [{"limit": 0}, {"rate": 0}, {"rate": -1}, {"canary": 0}, {"canary": 1_001}, {"at": -1}, {"rate": float("nan")}],
    ids=str,
)
async def test_what_makes_no_sense_is_refused_before_it_is_stored(process, how):
    """L5.2: a request that cannot be carried out is no operation."""
    await process.fail(1)
    with pytest.raises(InvalidSetting):
        await process.recovery.recover("status:unresolved", **how)
    assert await process.recovery.operations() == []


# --- one step at a time


async def test_a_step_does_what_can_be_done_now_and_says_when_there_is_more(process):
    """F8: with a rate it waited for the whole operation, and on a manual clock for ever."""
    await process.fail(3)
    await process.recovery.recover("status:unresolved", rate=2)
    steps = []
    for _ in range(12):
        steps.append(await process.recovery.step())
        if not steps[-1] and steps[-1].next_in is None:
            break
        if not steps[-1]:
            process.clock.advance(steps[-1].next_in)
    assert len(await process.arrived()) == 3
    assert {round(each.next_in, 6) for each in steps if each.next_in} == {0.5}
    assert [bool(each) for each in steps].count(False) >= 3
    assert steps[-1] == Step(has_worked=False)


async def test_a_step_says_when_an_operation_begins(process):
    """F8: and returns at once, as there is nothing to do now."""
    await process.fail(1)
    await process.recovery.recover("status:unresolved", at=1_000)
    step = await process.recovery.step()
    assert (bool(step), round(step.next_in)) == (False, 1_000)


async def test_a_step_says_for_how_long_it_waits_for_the_first_ones(process):
    """F8: silence is no success, and somebody has to look when it has lasted long enough."""
    await process.fail(3)
    await process.recovery.recover("status:unresolved", canary=Canary(count=1, patience=60))
    while await process.recovery.step():
        pass
    step = await process.recovery.step()
    assert 59 < step.next_in <= 60
    process.clock.advance(step.next_in)
    assert await process.recovery.step()
    assert (await process.recovery.operations())[0].state is OperationState.PAUSED


async def test_a_step_says_when_another_process_would_be_gone(process):
    """F8: whoever only steps looks again when the lease of a dead process has ended."""
    await process.fail(1)
    async with process.busy_lane("orders"):
        await process.recovery.recover("status:unresolved")
        assert await process.recovery.step()
        step = await process.recovery.step()
    assert (bool(step), step.next_in) == (False, 15.0)


async def test_a_step_does_not_wait_for_copies_that_a_dead_process_has(site):
    """F8: they come when their locks end; until then there is nothing to do."""
    process = await site.open(lanes={"page": 2})
    await process.fail(4)
    await process.recovery.recover("status:unresolved")
    process.dies("ledger.latest")
    with pytest.raises(Crash):
        await process.work()
    other = await site.open(lanes={"page": 2})
    site.clock.advance(15.1)  # its lease is over, and here the locks are too
    locked = await other.engine.lock_next("redrive.staging/orders", 1)
    steps = [await other.recovery.step(), await other.recovery.step()]
    assert [(bool(each), each.next_in) for each in steps] == [(True, 1.0), (False, 1.0)]
    site.clock.advance(10.1)
    await other.work()
    assert (len(locked), len(await other.arrived())) == (1, 4)


async def test_a_message_that_is_refused_again_and_again_is_ejected_step_by_step_too(process):
    """F8: what was refused is counted from one step to the next."""
    await process.fail(2)
    process.refuses(
        lambda effect: isinstance(effect, Send) and effect.message.body == b"order 1" and not staging(effect)
    )
    operation = await process.recovery.recover("status:unresolved", rate=1)
    for _ in range(40):
        if not (step := await process.recovery.step()):
            process.clock.advance(step.next_in or 0.0)
    progress = (await process.recovery.operation(operation.number)).progress
    assert (progress.forwarded, progress.failed) == (1, 1)


def staging(effect):
    return effect.queue.startswith("redrive.staging/")


# --- figures


async def test_the_figures_account_for_what_a_person_closed_and_what_was_sent_once_more(process):
    """F6: what was resolved after it was forwarded was in no figure."""
    ids = await process.fail(5)
    operation = await process.recovered("status:unresolved")
    await process.recovery.resolve(ids[:2])
    await process.work()
    await process.recovery.recover(ids[2:3], again=True)
    await process.work()
    found = (await process.recovery.operation(operation.number)).progress
    assert (found.total, found.forwarded, found.waiting) == (5, 5, 2)
    assert (found.closed, found.superseded, found.done) == (2, 1, 0)
    assert (await process.recovery.operation(2)).progress.done == 2


# --- who has them


async def test_a_conflict_names_everybody_who_has_some_of_them(process):
    """F10: two operations that are over have sent them; it said that one has all, and to wait for it."""
    ids = await process.fail(5)
    first = await process.recovery.recover(ids[:3], actor="ann")
    second = await process.recovery.recover(ids[3:])
    await process.work()
    dry = await process.recovery.dry_run("status:any")
    assert [(each.operation, each.state.word, each.count, each.actor) for each in dry.holders] == [
        (first.number, "completed", 3, "ann"),
        (second.number, "completed", 2, ""),
    ]
    assert (dry.taken, dry.blocking) == (5, first.number)
    with pytest.raises(OperationConflict) as caught:
        await process.recovery.recover(ids)
    assert caught.value.operations == (first.number, second.number)
    told = "operation 1 (completed, requested by ann) and operation 2 (completed) sent these 5, and nothing was heard"
    assert str(caught.value).startswith(told)
    assert (await process.recovered(ids, again=True)).progress.forwarded == 5


async def test_a_conflict_with_one_that_is_under_way_says_to_wait_for_it(process):
    """F10: that one is not over."""
    ids = await process.fail(2)
    async with process.busy_lane("orders"):
        await process.recovery.recover("status:unresolved")
        await process.recovery.step()
        with pytest.raises(OperationConflict, match=r"1 \(running\) has these 2; wait for it"):
            await process.recovery.recover(ids)
