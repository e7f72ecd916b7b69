# SPDX-License-Identifier: MIT
"""What becomes of a message that was sent again: it succeeds, fails again, or is never heard of."""

import asyncio

import pytest

from redrive.broker import Message
from redrive.broker.rules import CONFIRMATIONS
from redrive.clock import utc
from redrive.recovery import MessageRecovered, Outcome, Status
from redrive.worker import BlockingContext, Context
from redrive.worker.confirmation import confirmation_of


async def until_handled(process, seen, number=1):
    await process.site.until(lambda: len(seen) >= number)


# --- with a real worker


async def test_a_handler_that_fails_and_then_succeeds_is_seen_from_end_to_end(process):
    """Behaviour 55, 57: fails, is recovered, fails again on the same record, is recovered, and succeeds."""
    seen, works = [], False

    async def handle(body: bytes):
        seen.append(body)
        if not works:
            raise LookupError(f"no stock, try {len(seen)}")

    await process.broker.send("orders", Message(b"one", id="m-1", headers={"tenant": "acme"}))
    async with process.worker(handle):
        await until_handled(process, seen, 1)
    await process.recovery.ingest()
    (failed,) = await process.recovery.failed()
    assert (failed.exception_type, failed.exception_message) == ("LookupError", "no stock, try 1")
    first = await process.recovered()
    process.clock.advance(5)
    async with process.worker(handle):
        await until_handled(process, seen, 2)
    await process.recovery.ingest()
    again = await process.recovery.show(failed.id)
    assert (again.summary.status, again.summary.attempts) == (Status.UNRESOLVED, 2)
    assert [each.operation for each in again.attempts] == [first.number, None]
    assert [each.details["exception_message"] for each in again.attempts] == ["no stock, try 2", "no stock, try 1"]
    works = True
    second = await process.recovered()
    process.clock.advance(5)
    async with process.worker(handle):
        await until_handled(process, seen, 3)
    await process.recovery.ingest()
    done = await process.recovery.show(failed.id)
    assert done.summary.status is Status.RESOLVED
    assert [(each.operation, each.outcome) for each in done.parts] == [
        (second.number, Outcome.SUCCEEDED),
        (first.number, Outcome.FAILED_AGAIN),
    ]
    assert seen == [b"one"] * 3
    assert await process.recovery.count("status:any") == 1


async def plain(body: bytes):
    pass


def blocking(body: bytes):
    pass


async def settling(_body: bytes, context: Context):
    await context.complete()


def settling_in_a_thread(_body: bytes, context: BlockingContext):
    context.complete()


@pytest.mark.parametrize(
    ("handler", "how"),
    [
        (plain, {}),
        (blocking, {}),
        (settling, {"auto_complete": False}),
        (settling_in_a_thread, {"auto_complete": False}),
    ],
    ids=["async", "blocking", "settles itself", "settles itself in a thread"],
)
async def test_a_worker_confirms_in_the_transaction_that_completes(process, handler, how):
    """Behaviour 57, L5.9: every kind of handler; the word is there in the moment the message is not."""
    (id_,) = await process.fail(1)
    await process.recovered()
    applied = []

    def note(effect):
        applied.append(type(effect).__name__)
        return False

    process.refuses(note)
    async with process.worker(handler, **how):
        await process.site.until(lambda: "Complete" in applied)
    assert sorted(applied) == ["Complete", "Send"]
    assert (await process.broker.inspect("orders")).ready == 0
    await process.recovery.ingest()
    assert (await process.summary(id_)).status is Status.RESOLVED


async def test_a_worker_without_anybody_to_tell_still_completes(process):
    """L5.9: the confirmation queue is gone; that does not cost the message."""
    await process.fail(1)
    await process.recovered()
    await process.broker.delete(CONFIRMATIONS)
    seen = []

    async def handle(body: bytes):
        seen.append(body)

    async with process.worker(handle):
        await until_handled(process, seen)
    info = await process.broker.inspect("orders")
    assert (info.ready, info.locked, info.dead) == (0, 0, 0)
    assert len(seen) == 1


async def test_a_handler_that_abandons_or_fails_confirms_nothing(process):
    """Behaviour 57: only what is done is confirmed."""
    (id_,) = await process.fail(1)
    await process.recovered()
    seen = []

    async def handle(_body: bytes, context: Context):
        seen.append(1)
        await context.dead_letter("Broken", "not today")

    async with process.worker(handle, auto_complete=False):
        await until_handled(process, seen)
    await process.recovery.ingest()
    assert (await process.summary(id_)).status is Status.RETRY_ISSUED


# --- failing again


async def test_failing_again_goes_to_its_own_record(process):
    """Behaviour 55: same record, attempt +1, unresolved, linked to the operation that sent it."""
    (id_,) = await process.fail(1)
    operation = await process.recovered()
    process.clock.advance(1)
    await process.fail_again(*await process.arrived(), kind="shop.errors.NoCredit", said="no credit")
    found = await process.recovery.show(id_)
    assert (found.summary.status, found.summary.attempts) == (Status.UNRESOLVED, 2)
    assert (found.summary.exception_type, found.summary.operation) == ("shop.errors.NoCredit", operation.number)
    assert found.attempts[0].operation == operation.number
    assert found.parts[0].outcome is Outcome.FAILED_AGAIN
    assert await process.recovery.count("status:any") == 1
    assert found.message.headers == {"tenant": "acme"}


async def test_failing_again_by_a_clock_that_is_behind_counts_too(process):
    """Behaviour 55: the consumer's clock says it failed before it was sent; its operation says which sending it was."""
    (id_,) = await process.fail(1)
    await process.recovered()
    await process.fail_again(*await process.arrived(), at=process.clock.time() - 3_600)
    found = await process.recovery.show(id_)
    assert (found.summary.status, found.summary.attempts) == (Status.UNRESOLVED, 2)
    assert found.parts[0].outcome is Outcome.FAILED_AGAIN
    assert (await process.recovered()).progress.forwarded == 1


@pytest.mark.parametrize("ahead", [-86_400, 0, 86_400])
async def test_a_failure_that_nobody_has_seen_reopens_a_message_whatever_its_time_says(process, ahead):
    """Suspicion 4: whoever stamped it may have had a wrong clock; and who resolved it could not know of it."""
    (id_,) = await process.fail(1)
    await process.recovered()
    (sent,) = await process.arrived()
    await process.recovery.resolve([id_])
    await process.work()
    await process.fail_again(sent, at=process.clock.time() + ahead)
    found = await process.recovery.show(id_)
    assert (found.summary.status, found.summary.attempts) == (Status.UNRESOLVED, 2)
    assert found.attempts[0].operation == 1
    assert (await process.recovered()).progress.forwarded == 1


async def test_a_failure_without_a_tag_ends_the_waiting(process):
    """Behaviour 55: another framework may drop the tag; the message that fails again is the one that was sent."""
    (id_,) = await process.fail(1)
    operation = await process.recovered()
    (sent,) = await process.arrived()
    await process.broker.send("error", process.site.failed_message(id=sent.id, body=sent.body))
    await process.recovery.ingest()
    found = await process.recovery.show(id_)
    assert (found.summary.status, found.summary.attempts) == (Status.UNRESOLVED, 2)
    assert (await process.recovery.operation(operation.number)).progress.failed_again == 1


async def test_a_consumer_that_fails_before_we_have_noted_the_sending_is_heard(process):
    """Behaviour 55: it was faster than our own note."""
    (id_,) = await process.fail(1)
    operation = await process.recovery.recover("status:unresolved")

    async def fail_at_once(*_values):
        await process.fail_again(*await process.arrived())

    process.at("ledger.finish", fail_at_once)
    await process.work()
    found = await process.recovery.show(id_)
    assert (found.summary.status, found.parts[0].outcome) == (Status.UNRESOLVED, Outcome.FAILED_AGAIN)
    found = await process.recovery.operation(operation.number)
    assert (found.state.word, found.progress.failed_again) == ("completed", 1)


async def test_what_failed_again_is_not_swept(process):
    """Behaviour 56: an expiry that was set when it was resolved counts no more."""
    (id_,) = await process.fail(1)
    await process.recovered()
    (sent,) = await process.arrived()
    await process.succeed(sent)
    assert (await process.summary(id_)).status is Status.RESOLVED
    process.clock.advance(100)
    await process.fail_again(sent)
    process.clock.advance(100_000)
    await process.recovery.sweep(10)
    assert (await process.summary(id_)).status is Status.UNRESOLVED


# --- success


async def test_word_of_success_resolves_and_more_of_it_does_no_harm(process):
    """Behaviour 57: the claim is gone; duplicates change nothing, not even after a restore."""
    (id_,) = await process.fail(1)
    operation = await process.recovered()
    (sent,) = await process.arrived()
    await process.succeed(sent, sent)
    await process.succeed(sent)
    assert (await process.summary(id_)).status is Status.RESOLVED
    assert (await process.recovery.operation(operation.number)).progress.succeeded == 1
    assert len([each for each in process.events if isinstance(each, MessageRecovered)]) == 1
    await process.recovery.restore([id_])
    await process.work()
    await process.succeed(sent)
    assert (await process.summary(id_)).status is Status.UNRESOLVED
    assert (await process.recovered()).progress.forwarded == 1


async def test_word_of_success_of_nobody_we_know_is_ignored(process):
    """Behaviour 57: an unknown id is ignored, and those that come with it are not."""
    (id_,) = await process.fail(1)
    await process.recovered()
    (sent,) = await process.arrived()
    (word,) = confirmation_of(sent.message, "orders", utc(0))
    unknown = {**word.message.headers, "redrive-recovery-tag": "1.1.c." + "f" * 32}
    await process.broker.send(CONFIRMATIONS, Message(b"", headers=unknown))
    await process.succeed(sent)
    assert (await process.summary(id_)).status is Status.RESOLVED
    assert [each.id for each in process.events if isinstance(each, MessageRecovered)] == [id_]
    assert (await process.broker.inspect(CONFIRMATIONS)).ready == 0


@pytest.mark.parametrize("is_failure_first", [True, False])
async def test_a_copy_of_a_copy_that_fails_is_recoverable_in_whatever_order_it_is_heard(process, is_failure_first):
    """Behaviour 9, D1: one succeeds, another that is just like it, tag and all, fails: that can be recovered."""
    (id_,) = await process.fail(1)
    await process.recovered()
    (sent,) = await process.arrived()
    if is_failure_first:
        await process.fail_again(sent)
        await process.succeed(sent)
    else:
        await process.succeed(sent)
        await process.fail_again(sent)
    (found,) = await process.recovery.failed()
    assert found.id == id_
    assert Outcome.FORWARDED not in [each.outcome for each in (await process.recovery.show(id_)).parts]
    assert (await process.recovered()).progress.forwarded == 1
    assert await process.bodies() == [sent.body]


# --- never heard of


async def test_what_is_never_heard_of_shows_its_age_and_can_be_resolved_by_rule(process):
    """Behaviour 58: consumers that cannot confirm: pending since when, and resolved by a filter."""
    ids = await process.fail(3)
    sent_at = process.clock.time()
    operation = await process.recovered()
    process.clock.advance(3_600)
    parts = await process.recovery.outcomes(operation.number, [Outcome.FORWARDED])
    assert {each.id for each in parts} == set(ids)
    assert all(0 <= each.at.timestamp() - sent_at < 5 for each in parts)
    resolving = await process.recovery.resolve(f"status:retry-issued operation:{operation.number} outcome:forwarded")
    await process.work()
    assert (await process.recovery.operation(resolving.number)).progress.forwarded == 3
    assert await process.recovery.count("status:resolved") == 3
    assert await process.outcome_words(operation.number) == {"closed": 3}


@pytest.mark.parametrize("kind", ["resolve", "archive"])
async def test_a_bulk_change_by_filter_touches_exactly_what_the_filter_shows(process, kind):
    """Behaviour 59: what was counted is what is changed, no more and no less (their bug)."""
    await process.fail(3, kind="shop.errors.NoCredit")
    await process.fail(4)
    await process.fail(5, queue="billing")
    await process.recovered("queue:billing")
    chosen = "queue:orders exception:NoStock"
    shown = {each.id for each in await process.recovery.failed(chosen)}
    assert await process.recovery.count(chosen) == len(shown) == 4
    operation = await getattr(process.recovery, kind)(chosen)
    await process.work()
    parts = await process.recovery.outcomes(operation.number)
    assert {each.id for each in parts} == shown
    assert {each.outcome for each in parts} == {Outcome.DONE}
    assert await process.recovery.count("") == 3
    assert await process.recovery.count("status:retry-issued") == 5


async def test_a_redirected_message_that_fails_there_updates_its_own_record(process):
    """Behaviour 60: the record knows where it failed last."""
    (id_,) = await process.fail(1)
    operation = await process.recovered(redirect="billing")
    process.clock.advance(1)
    await process.fail_again(*await process.arrived("billing"))
    found = await process.recovery.show(id_)
    assert (found.summary.queue, found.summary.attempts) == ("billing", 2)
    assert found.attempts[0].operation == operation.number
    assert await process.recovery.count("status:any") == 1


async def test_recovery_and_worker_run_side_by_side(site):
    """L5.1 to L5.9 in one: everything runs by itself, and in the end everything is resolved."""
    process = await site.open()
    tries = {}

    async def handle(body: bytes):
        tries[body] = tries.get(body, 0) + 1
        if tries[body] < 3:
            raise LookupError(body)

    await process.broker.send_many("orders", [Message(b"%d" % number) for number in range(10)])
    running = asyncio.create_task(process.recovery.run())
    async with process.worker(handle, concurrency=4):
        for round_ in (1, 2):
            chosen = f"attempts:{round_}"
            await site.until(lambda chosen=chosen: are_there(process, chosen, 10))
            await process.recovery.recover(chosen)
        await site.until(lambda: are_there(process, "status:resolved", 10))
    process.recovery.stop()
    await site.play(running)
    assert set(tries.values()) == {3}


async def are_there(process, chosen, number):
    return await process.recovery.count(chosen) == number
