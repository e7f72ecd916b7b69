# SPDX-License-Identifier: MIT
"""What a handler can do through its context."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest

from redrive.broker import Message, State
from redrive.errors import InvalidSetting, LockLost, UsageError
from redrive.worker import BlockingContext, Context, HandlerFailed, MessageMoved, Recoverability

BY_HAND = {"auto_complete": False, "recoverability": Recoverability(immediate=0, delayed=None)}


async def handled(lab, do, **settings):
    """Have one message handled by a coroutine function of the context; return what it returned or raised."""
    outcome = asyncio.get_running_loop().create_future()

    @lab.worker.handler("orders", **settings)
    async def handle(_body: bytes, context: Context):
        if outcome.done():
            return
        try:
            outcome.set_result(await do(context))
        except Exception as error:
            outcome.set_exception(error)
            raise

    await lab.broker.send("orders", Message(b"x", id="m1"))
    await lab.start()
    try:
        return await outcome
    finally:
        await lab.stop()


async def test_a_context_knows_its_message(lab):
    async def do(context):
        return context.message.id, context.sequence, context.enqueued_at, context.is_stopping, context.broker

    assert await handled(lab, do) == ("m1", 1, datetime(2026, 1, 4, tzinfo=UTC), False, lab.broker)


async def test_sends_can_be_scheduled(lab):
    await lab.broker.declare("later")
    at = datetime(2026, 1, 4, 1, tzinfo=timezone(timedelta(hours=1)))

    async def do(context):
        context.send("later", b"now")
        context.send("later", b"delayed", delay=timedelta(seconds=90))
        context.send("later", Message(b"at", id="named"), at=at + timedelta(hours=1))

    await handled(lab, do)
    due = {each.body: each.due_at for each in await lab.broker.peek("later")}
    assert due == {
        b"now": None,
        b"delayed": datetime(2026, 1, 4, 0, 1, 30, tzinfo=UTC),
        b"at": datetime(2026, 1, 4, 1, tzinfo=UTC),
    }


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"at": datetime(2027, 1, 1, tzinfo=UTC), "delay": 5}, "cannot be combined with delay"),
        ({"at": datetime(2027, 1, 1)}, "must have a time zone"),  # noqa: DTZ001 - that is the point
        ({"delay": -1}, "delay=-1"),
    ],
)
async def test_a_wrong_time_is_refused_when_it_is_sent(lab, how, says):
    async def do(context):
        context.send("orders", b"x", **how)

    with pytest.raises(InvalidSetting, match=says):
        await handled(lab, do)


async def test_any_handler_may_settle_its_message_and_the_worker_leaves_it_alone(lab):
    async def do(context):
        await context.dead_letter("Rejected")

    await handled(lab, do)
    assert [dead.dead_letter_info.reason for dead in await lab.dead()] == ["Rejected"]
    assert lab.events == []


async def test_completing_by_hand_commits_what_was_sent_and_the_handler_goes_on(lab):
    async def do(context):
        context.send("receipts", b"r")
        await context.complete()
        return (await lab.broker.inspect("receipts")).ready, await lab.counts()

    await lab.broker.declare("receipts")
    receipts, counts = await handled(lab, do, **BY_HAND)
    assert receipts == 1
    assert counts == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


async def test_abandoning_by_hand_sends_nothing_and_keeps_the_count(lab):
    async def do(context):
        context.send("orders", b"never")
        await context.abandon(delay=60, headers={"why": "later"})

    await handled(lab, do, **BY_HAND)
    (message,) = await lab.broker.peek("orders")
    assert (message.state, message.delivery_count, message.headers) == (State.SCHEDULED, 1, {"why": "later"})


async def test_deferring_by_hand_sets_it_aside(lab):
    async def do(context):
        await context.defer(headers={"why": "order"})

    await handled(lab, do, **BY_HAND)
    (message,) = await lab.broker.peek("orders")
    assert (message.state, message.headers) == (State.DEFERRED, {"why": "order"})


async def test_dead_lettering_by_hand_commits_what_was_sent(lab):
    async def do(context):
        context.send("notices", b"a notice")
        await context.dead_letter("Rejected", "no stock", headers={"who": "me"})

    await lab.broker.declare("notices")
    await handled(lab, do, **BY_HAND)
    (dead,) = await lab.dead()
    assert (dead.dead_letter_info.reason, dead.dead_letter_info.description) == ("Rejected", "no stock")
    assert dead.headers["who"] == "me"
    assert [each.body for each in await lab.broker.peek("notices")] == [b"a notice"]


async def test_nothing_is_settled_twice(lab):
    async def do(context):
        await context.complete()
        with pytest.raises(LockLost):
            await context.abandon()
        with pytest.raises(UsageError, match="settled already: send before you settle it"):
            context.send("orders", b"late")
        with pytest.raises(LockLost):
            await context.renew()

    await handled(lab, do, **BY_HAND)
    assert await lab.counts() == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


async def test_a_failure_after_settling_by_hand_changes_nothing(lab):
    async def do(context):
        await context.complete()
        raise ValueError("afterwards")

    with pytest.raises(ValueError, match="afterwards"):
        await handled(lab, do, **BY_HAND)
    assert [event.outcome for event in lab.told(HandlerFailed)] == ["settled"]
    assert await lab.counts() == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


async def test_returning_without_settling_is_a_failure(lab):
    async def do(context): ...

    await handled(lab, do, **BY_HAND)
    (dead,) = await lab.dead()
    assert "returned without settling its message" in dead.headers["redrive-failed-exception-message"]


async def test_a_settlement_that_cannot_be_leaves_the_message_to_be_settled(lab):
    async def do(context):
        context.send("nowhere", b"x")
        with pytest.raises(Exception, match="nowhere"):
            await context.complete()
        await context.complete()

    await handled(lab, do, **BY_HAND)
    assert await lab.counts() == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


@pytest.mark.parametrize(
    ("settle", "after"),
    [
        (lambda context: context.complete(), []),
        (lambda context: context.abandon(60), [State.SCHEDULED]),
        (lambda context: context.defer(), [State.DEFERRED]),
    ],
    ids=["complete", "abandon", "defer"],
)
async def test_a_blocking_handler_settles_by_hand_without_await(lab, settle, after):
    done = []

    @lab.worker.handler("orders", **BY_HAND)
    def handle(_body: bytes, context: BlockingContext):
        settle(context)
        done.append(context.attempt)

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: done)
    await lab.stop()
    assert [each.state for each in await lab.broker.peek("orders")] == after


async def test_a_blocking_handler_dead_letters_by_hand(lab):
    @lab.worker.handler("orders", **BY_HAND)
    def handle(_body: bytes, context: BlockingContext):
        context.send("orders/$dead", b"beside it")
        context.dead_letter("Rejected")
        lab.worker.stop()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.running
    assert sorted(each.body for each in await lab.dead()) == [b"beside it", b"x"]


async def test_a_blocking_handler_sends_with_its_completion(lab):
    await lab.broker.declare("receipts")

    @lab.worker.handler("orders")
    def handle(_body: bytes, context: BlockingContext):
        context.send("receipts", b"r")
        lab.worker.stop()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.running
    assert (await lab.broker.inspect("receipts")).ready == 1
    assert lab.told(MessageMoved) == []


async def test_a_handler_that_makes_room_does_not_hold_up_the_next_message_and_the_one_after_that_waits(lab):
    begun, may_end = [], asyncio.Event()

    @lab.worker.handler("orders", concurrency=1)
    async def handle(body: bytes, context: Context):
        begun.append(body)
        context.make_room()
        await may_end.wait()
        await context.complete()

    await lab.broker.send_many("orders", [b"1", b"2", b"3"])
    await lab.start()
    await lab.until(lambda: len(begun) == 2)
    await lab.ticks()
    assert begun == [b"1", b"2"]
    may_end.set()
    await lab.until(lambda: len(begun) == 3)
    await lab.stop()
    assert await lab.broker.peek("orders") == []
