# SPDX-License-Identifier: MIT
"""The worker from end to end: a queue, a handler, and what becomes of a message."""

import asyncio
from dataclasses import dataclass

import pytest

from redrive import connect_blocking
from redrive.broker import Message
from redrive.errors import InvalidSetting, QueueNotFound, UsageError
from redrive.retry import Exponential, Fixed
from redrive.worker import (
    Context,
    DeliveriesTooFew,
    Discard,
    HandlerFailed,
    MessageMoved,
    MoveToError,
    Recoverability,
    RedeliverNow,
    SlowDown,
    Worker,
    WorkerFault,
)

AT_ONCE_ONLY = Recoverability(immediate=1, delayed=None)


@dataclass
class Order:
    number: int


async def test_a_message_is_handled_and_completed(lab):
    handled = []

    @lab.worker.handler("orders")
    async def handle(order: Order, context: Context):
        handled.append((order, context.attempt, context.delivery_count, context.headers, context.queue))

    await lab.broker.send("orders", Message(b'{"number": 7}', headers={"tenant": "acme"}))
    await lab.start()
    await lab.until(lambda: handled)
    await lab.stop()
    assert handled == [(Order(7), 1, 1, {"tenant": "acme"}, "orders")]
    assert await lab.counts() == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


async def test_messages_that_come_while_it_waits_are_handled(lab):
    handled = []
    lab.worker.handler("orders")(handled.append)
    await lab.start()
    for body in (b"1", b"2", b"3"):
        await lab.broker.send("orders", body)
        await lab.until(lambda body=body: handled and handled[-1] == body)
    assert handled == [b"1", b"2", b"3"]


async def test_one_at_a_time_keeps_the_order(lab):
    handled = []

    @lab.worker.handler("orders", prefetch=20)
    async def handle(body: bytes):
        await lab.clock.sleep_async(0)
        handled.append(int(body))

    await lab.broker.send_many("orders", [str(n) for n in range(200)])
    await lab.start()
    await lab.until(lambda: len(handled) == 200)
    assert handled == list(range(200))


async def test_many_at_a_time_are_fetched_together(lab):
    inside, most = set(), []
    go_on = asyncio.Event()

    @lab.worker.handler("orders", concurrency=8, prefetch=4)
    async def handle(body: bytes):
        inside.add(body)
        most.append(len(inside))
        await go_on.wait()
        inside.discard(body)

    await lab.broker.send_many("orders", [str(n) for n in range(30)])
    await lab.start()
    await lab.until(lambda: len(inside) == 8)
    assert lab.engine.limits == [12]
    assert await lab.counts() == {"ready": 18, "locked": 12, "scheduled": 0, "dead": 0}
    go_on.set()
    await lab.until(lambda: len(most) == 30)
    await lab.stop()
    assert max(most) == 8
    assert (await lab.counts())["ready"] == 0


async def test_what_a_handler_sends_commits_with_its_completion_and_never_when_it_fails(lab):
    await lab.broker.declare("receipts")
    attempts = []

    @lab.worker.handler("orders")
    async def handle(_body: bytes, context: Context):
        context.send("receipts", f"receipt {context.attempt}")
        attempts.append(context.attempt)
        assert (await lab.broker.inspect("receipts")).ready == 0
        if context.attempt == 1:
            raise ConnectionError

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: attempts == [1, 2])
    await lab.stop()
    assert [each.body for each in await lab.broker.peek("receipts")] == [b"receipt 2"]
    assert (await lab.counts())["ready"] == 0


async def test_a_send_that_cannot_be_is_the_handlers_failure(lab):
    @lab.worker.handler("orders", recoverability=AT_ONCE_ONLY)
    async def handle(_body: bytes, context: Context):
        context.send("nowhere", b"x")

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: lab.told(MessageMoved))
    (dead,) = await lab.dead()
    assert dead.headers["redrive-failed-exception-type"] == "redrive.errors.QueueNotFound"
    assert dead.headers["redrive-failed-immediate-retries"] == 1


async def test_a_failing_message_takes_the_whole_path(lab):
    tried = []

    @lab.worker.handler(
        "orders", recoverability=Recoverability(immediate=2, delayed=Exponential(min=5, max_attempts=3))
    )
    async def handle(_body: bytes, context: Context):
        tried.append((lab.clock.monotonic(), context.attempt, context.delivery_count, context.delayed_retries))
        raise ConnectionError(f"attempt {context.attempt}") from OSError("the cause")

    await lab.broker.send("orders", Message(b"body", id="m1", subject="s", headers={"tenant": "acme"}))
    await lab.start()
    await lab.until(lambda: len(tried) == 3)
    await lab.until(lambda: len(lab.told(HandlerFailed)) == 3)
    assert (await lab.counts())["scheduled"] == 1
    await lab.advance(4.9)
    assert len(tried) == 3
    await lab.advance(0.2)
    await lab.until(lambda: len(lab.told(HandlerFailed)) == 6)
    await lab.advance(10.1)
    await lab.until(lambda: lab.told(MessageMoved))
    assert [(attempt, delivery, delayed) for _, attempt, delivery, delayed in tried] == [
        (1, 1, 0), (2, 2, 0), (3, 3, 0),
        (4, 1, 1), (5, 2, 1), (6, 3, 1),
        (7, 1, 2), (8, 2, 2), (9, 3, 2),
    ]  # fmt: skip
    (dead,) = await lab.dead()
    assert (dead.id, dead.body, dead.message.subject) == ("m1", b"body", "s")
    assert dead.dead_letter_info.reason == "MaxDelayedRetries"
    headers = dict(dead.headers)
    trace = headers.pop("redrive-failed-stack-trace")
    source = headers.pop("redrive-failed-exception-source")
    assert headers.pop("redrive-failed-host")
    assert headers == {
        "tenant": "acme",
        "redrive-failed-queue": "orders",
        "redrive-failed-at": "2026-01-04T00:00:15.200000+00:00",
        "redrive-failed-reason": "MaxDelayedRetries",
        "redrive-failed-exception-type": "ConnectionError",
        "redrive-failed-exception-message": "attempt 9",
        "redrive-failed-immediate-retries": 6,
        "redrive-failed-delayed-retries": 2,
        "redrive-failed-worker": "testing",
    }
    assert "OSError: the cause" in trace
    assert "ConnectionError: attempt 9" in trace
    assert "redrive/worker" not in trace
    assert source.startswith(f"{__name__}.test_a_failing_message_takes_the_whole_path.<locals>.handle:")
    outcomes = [(event.attempt, event.outcome, event.delay) for event in lab.told(HandlerFailed)]
    assert outcomes[2:4] == [(3, "redeliver_later", 5.0), (4, "redeliver_now", 0.0)]
    assert outcomes[-1] == (9, "moved", None)


async def test_a_dead_letter_that_is_sent_again_begins_anew(lab):
    attempts = []

    @lab.worker.handler("orders", recoverability=Recoverability(immediate=0, delayed=[5]))
    async def handle(_body: bytes, context: Context):
        attempts.append((context.attempt, context.delayed_retries))
        raise ConnectionError

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: len(lab.told(HandlerFailed)) == 1)
    await lab.advance(5.1)
    await lab.until(lambda: len(lab.told(MessageMoved)) == 1)
    await lab.broker.resubmit("orders")
    await lab.until(lambda: len(lab.told(HandlerFailed)) == 3)
    assert attempts == [(1, 0), (2, 1), (1, 0)]


async def test_the_error_queue_gets_a_copy_in_the_transaction_that_completes(lab):
    await lab.broker.declare("errors")

    @lab.worker.handler("orders", recoverability=Recoverability(immediate=0, delayed=None, error_queue="errors"))
    async def handle(_body: bytes):
        raise ValueError("bad total")

    await lab.broker.send("orders", Message(b"x", id="m1", ttl=60, headers={"tenant": "acme"}))
    await lab.start()
    await lab.until(lambda: lab.told(MessageMoved))
    (copy,) = await lab.broker.peek("errors")
    assert (copy.id, copy.body, copy.expires_at) == ("m1", b"x", None)
    assert copy.headers["tenant"] == "acme"
    assert copy.headers["redrive-failed-reason"] == "MaxImmediateRetries"
    assert await lab.counts() == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}
    assert lab.told(MessageMoved)[0].to == "errors"


async def test_an_error_queue_must_take_what_the_queue_takes(lab):
    """F5: what it refuses would be a dead letter, where nobody looks for it."""
    await lab.broker.declare("errors", max_message_bytes=100)

    @lab.worker.handler("orders", recoverability=Recoverability(immediate=0, delayed=None, error_queue="errors"))
    async def handle(_body: bytes):
        raise ValueError("bad total")

    with pytest.raises(InvalidSetting, match="update it with max_message_bytes=1048576"):
        await lab.worker.run(lab.broker)


async def test_a_copy_too_large_for_the_error_queue_becomes_a_dead_letter(lab):
    await lab.broker.declare("errors")

    @lab.worker.handler("orders", recoverability=Recoverability(immediate=0, delayed=None, error_queue="errors"))
    async def handle(_body: bytes):
        raise ValueError("bad total")

    await lab.start()
    await lab.broker.update("errors", max_message_bytes=100)
    await lab.broker.send("orders", b"x" * 101)
    await lab.until(lambda: lab.told(MessageMoved))
    (dead,) = await lab.dead()
    assert dead.headers["redrive-failed-exception-message"] == "bad total"
    assert lab.faults == [("MessageTooLarge", "move orders")]
    assert lab.told(MessageMoved)[0].to == "orders/$dead"
    assert (await lab.broker.inspect("errors")).ready == 0


async def test_what_a_failure_adds_to_a_message_does_not_make_it_too_large(lab):
    await lab.broker.declare("errors", max_message_bytes=100)
    await lab.broker.update("orders", max_message_bytes=100)

    @lab.worker.handler("orders", recoverability=Recoverability(immediate=0, delayed=None, error_queue="errors"))
    async def handle(_body: bytes):
        raise ValueError("bad total" * 1_000)

    await lab.broker.send("orders", b"x" * 100)
    await lab.start()
    await lab.until(lambda: lab.told(MessageMoved))
    assert (lab.faults, lab.told(MessageMoved)[0].to) == ([], "errors")


async def test_poison_is_moved_at_once_and_nobody_sees_it(lab):
    handled = []

    @lab.worker.handler("orders", slow_down=SlowDown(after=1))
    async def handle(order: Order):
        handled.append(order)

    await lab.broker.send_many("orders", [b"\xff", b'{"number": "x"}', b'{"number": 1}'])
    await lab.start()
    await lab.until(lambda: handled)
    await lab.stop()
    reasons = [
        (each.dead_letter_info.reason, each.headers["redrive-failed-immediate-retries"]) for each in await lab.dead()
    ]
    assert reasons == [("Poison", 0), ("Poison", 0)]


async def test_an_ignored_failure_completes(lab):
    @lab.worker.handler("orders", recoverability=Recoverability(classify=lambda _: "ignore"))
    async def handle(_body: bytes):
        raise ValueError

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: lab.told(HandlerFailed))
    assert lab.told(HandlerFailed)[0].outcome == "discarded"
    assert await lab.counts() == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


async def test_a_decision_of_your_own_replaces_ours(lab):
    seen = []

    def mine(failure):
        seen.append((failure.attempt, failure.exception_type, failure.message.body, failure.max_delivery_count))
        return RedeliverNow() if failure.attempt < 4 else MoveToError("Enough", "I say so", headers={"mine": 1})

    @lab.worker.handler("orders", recoverability=mine)
    async def handle(_body: bytes):
        raise ValueError

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: lab.told(MessageMoved))
    (dead,) = await lab.dead()
    assert seen == [(n, "ValueError", b"x", 10) for n in (1, 2, 3, 4)]
    assert (dead.dead_letter_info.reason, dead.dead_letter_info.description) == ("Enough", "I say so")
    assert (dead.headers["mine"], dead.headers["redrive-failed-reason"]) == (1, "Enough")


@pytest.mark.parametrize("broken", [lambda _: 1 / 0, lambda _: "retry"], ids=["raises", "returns nonsense"])
async def test_a_decision_that_fails_is_reported_and_ours_is_taken(lab, broken):
    @lab.worker.handler("orders", recoverability=broken)
    async def handle(_body: bytes, context: Context):
        if context.attempt < 3:
            raise ValueError

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: len(lab.told(HandlerFailed)) == 2)
    await lab.stop()
    assert [event.outcome for event in lab.told(HandlerFailed)] == ["redeliver_now", "redeliver_now"]
    assert {doing for _, doing in lab.faults} == {"recoverability orders"}
    assert (await lab.counts())["ready"] == 0


async def test_a_handler_that_is_cancelled_from_inside_has_failed(lab):
    @lab.worker.handler("orders", recoverability=AT_ONCE_ONLY)
    async def handle(_body: bytes):
        raise asyncio.CancelledError

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: lab.told(MessageMoved))
    assert "cancelled from inside" in lab.told(HandlerFailed)[0].exception_message


async def test_too_few_deliveries_are_reported_at_the_start_and_respected(lab):
    await lab.broker.declare("short", max_delivery_count=2)
    attempts = []

    @lab.worker.handler("short", recoverability=Recoverability(immediate=3, delayed=[5]))
    async def handle(_body: bytes, context: Context):
        attempts.append(context.attempt)
        raise ValueError

    await lab.broker.send("short", b"x")
    await lab.start()
    await lab.until(lambda: len(lab.told(HandlerFailed)) == 2)
    (warning,) = lab.told(DeliveriesTooFew)
    assert "immediate=3 needs 4 deliveries" in str(warning)
    assert "max_delivery_count=2" in str(warning)
    assert (await lab.counts("short"))["scheduled"] == 1


async def test_several_queues_are_served_by_one_worker(lab):
    await lab.broker.declare("invoices")
    handled = []
    lab.worker.handler("orders")(lambda body: handled.append(("orders", body)))
    lab.worker.handler("invoices")(lambda body: handled.append(("invoices", body)))
    await lab.broker.send("orders", b"1")
    await lab.broker.send("invoices", b"2")
    await lab.start()
    await lab.until(lambda: len(handled) == 2)
    assert sorted(handled) == [("invoices", b"2"), ("orders", b"1")]
    assert lab.worker.queues == ("orders", "invoices")


async def test_a_queue_that_is_deleted_ends_the_worker_with_its_error(lab):
    lab.worker.handler("orders")(print)
    await lab.start()
    await lab.broker.delete("orders")
    with pytest.raises(QueueNotFound):
        await lab.running


async def test_an_event_observer_that_fails_changes_nothing(lab):
    worker = Worker(on_event=lambda _: 1 / 0)
    done = asyncio.Event()

    @worker.handler("orders")
    async def handle(_body: bytes, context: Context):
        if context.attempt == 1:
            raise ValueError
        done.set()

    await lab.broker.send("orders", b"x")
    running = asyncio.create_task(worker.run(lab.broker))
    await done.wait()
    worker.stop()
    await running
    assert (await lab.counts())["ready"] == 0


async def test_a_worker_can_run_again(lab):
    handled = []
    lab.worker.handler("orders")(handled.append)
    for n in (1, 2):
        await lab.broker.send("orders", b"x")
        await lab.start()
        await lab.until(lambda n=n: len(handled) == n)
        await lab.stop()


async def test_a_handler_stays_the_function_it_was(lab):
    @lab.worker.handler("orders")
    async def handle(order: Order) -> int:
        return order.number

    assert await handle(Order(7)) == 7


# --- what is refused


async def test_a_worker_without_handlers_does_not_run(lab):
    with pytest.raises(UsageError, match="has no handlers; declare one with @worker"):
        await lab.worker.run(lab.broker)


async def test_a_running_worker_does_not_run_twice(lab):
    lab.worker.handler("orders")(print)
    await lab.start()
    with pytest.raises(UsageError, match="worker 'testing' is running already"):
        await lab.worker.run(lab.broker)


async def test_a_queue_must_be_declared(lab):
    lab.worker.handler("nowhere")(print)
    with pytest.raises(QueueNotFound, match="nowhere"):
        await lab.worker.run(lab.broker)


async def test_the_error_queue_must_be_there_and_keep_everything(lab):
    await lab.broker.declare("unique", duplicate_detection=60)
    for name, error in (("nowhere", QueueNotFound), ("unique", InvalidSetting), ("orders", InvalidSetting)):
        worker = Worker()
        worker.handler("orders", recoverability=Recoverability(error_queue=name))(print)
        with pytest.raises(error, match=name):
            await worker.run(lab.broker)


async def test_a_dead_letter_queue_needs_an_error_queue(lab):
    lab.worker.handler("orders/$dead")(print)
    with pytest.raises(InvalidSetting, match="which has none of its own: give it an error_queue"):
        await lab.worker.run(lab.broker)


async def test_dead_letters_can_be_handled(lab):
    handled = []
    await lab.broker.declare("errors")
    policy = Recoverability(error_queue="errors")
    lab.worker.handler("orders/$dead", recoverability=policy)(handled.append)
    await lab.broker.send("orders", b"x")
    (delivery,) = await lab.broker.receive("orders")
    await delivery.dead_letter("Bad")
    await lab.start()
    await lab.until(lambda: handled)


async def test_retries_in_place_that_outlast_the_lock_are_refused_with_the_figures(lab):
    lab.worker.handler("orders", timeout=10, retry_in_place=Fixed(20, max_attempts=3))(print)
    with pytest.raises(InvalidSetting, match="may take 78 s, but a lock on 'orders' lasts 60 s"):
        await lab.worker.run(lab.broker)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"name": ""}, "name='': must be a text"),
        ({"grace": -1}, "grace=-1: must be 0 to"),
        ({"on_error": 1}, "on_error=1: must be a function"),
        ({"on_event": 1}, "on_event=1: must be a function"),
    ],
)
def test_a_wrong_setting_of_a_worker_is_refused(wrong, says):
    with pytest.raises(InvalidSetting, match=says):
        Worker(**wrong)


@pytest.mark.parametrize("how", ["run", "run_blocking"])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("sqlite:///orders.db", r"'sqlite:///orders.db' is no broker; pass connect\('sqlite:///orders.db'\)"),
        (
            connect_blocking("sqlite:///:memory:"),
            r"a worker has an event loop of its own; pass connect\(url\), not connect_bl",
        ),
        (None, r"None is no broker; pass connect\(url\)"),
    ],
    ids=["url", "blocking", "nothing"],
)
def test_what_is_no_broker_says_what_to_pass(how, given, says):
    worker = Worker()
    worker.handler("orders")(print)
    with pytest.raises(UsageError, match=says):
        worker.run_blocking(given) if how == "run_blocking" else asyncio.run(worker.run(given))


def test_a_queue_has_one_handler():
    worker = Worker()
    worker.handler("orders")(print)
    with pytest.raises(InvalidSetting, match="has a handler already: builtins"):
        worker.handler("orders")


async def test_a_fault_in_the_error_handler_is_reported_and_changes_nothing(lab):
    worker = Worker(on_error=lambda *_: 1 / 0, on_event=lab.events.append)

    def decide_badly(_):
        raise KeyError

    @worker.handler("orders", recoverability=decide_badly)
    async def handle(_body: bytes, context: Context):
        if context.attempt == 1:
            raise ValueError
        worker.stop()

    await lab.broker.send("orders", b"x")
    await worker.run(lab.broker)
    assert [event.doing for event in lab.told(WorkerFault)] == ["recoverability", "on_error"]


def test_discarding_is_a_value():
    assert Discard() == Discard()
