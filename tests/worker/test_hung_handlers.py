# SPDX-License-Identifier: MIT
"""A handler that goes on without its message: its place is given to the next one, and it is told of."""

import asyncio
import signal
import subprocess
import sys
import threading

import pytest

from redrive import connect_blocking
from redrive.errors import HandlersHung
from redrive.worker import (
    BlockingContext,
    Context,
    HandlerFailed,
    HandlerHung,
    MessageLockLost,
    MessageMoved,
    Recoverability,
    SlowDown,
    WorkerSlowed,
)
from redrive.worker.call import Caller
from redrive.worker.held_message import HeldMessage
from tests.patience import PATIENCE_S


@pytest.fixture
async def release():
    """What lets hung threads go on; they have ended after the test."""
    event = threading.Event()
    yield event
    event.set()


def hang(release, begun):
    begun.append(threading.current_thread().name)
    release.wait(PATIENCE_S)


async def test_a_blocking_handler_that_hangs_gives_up_its_place_after_its_lock_was_lost(lab, release):
    begun, handled = [], []

    @lab.worker.handler("orders", max_lock_renewal=100)
    def handle(body: str):
        if body == "hangs" and not begun:
            hang(release, begun)
        else:
            handled.append(body)

    await lab.broker.send_many("orders", ["hangs", "next"])
    await lab.start()
    await lab.until(lambda: begun)
    await lab.advance(170, step=1)
    await lab.until(lambda: len(handled) == 2)  # it goes on, and the message that hung is delivered again
    assert sorted(handled) == ["hangs", "next"]
    (hung,) = lab.told(HandlerHung)
    assert (hung.queue, hung.hung, hung.max_hung) == ("orders", 1, 10)
    assert hung.handler.endswith("handle")
    assert 125 <= hung.running <= 166
    assert ".hang:" in hung.where
    assert "its place is free" in str(hung)
    release.set()
    await lab.stop()
    assert await lab.counts() == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}
    assert lab.told(HandlerFailed) == []


async def test_a_blocking_handler_that_ends_soon_after_its_lock_was_lost_has_kept_its_place(lab, release):
    begun, ended = [], []

    @lab.worker.handler("orders", max_lock_renewal=0)
    def handle(context: BlockingContext):
        if context.attempt == 1:
            hang(release, begun)
        ended.append(context.attempt)

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: begun)
    await lab.advance(64, step=1)
    assert lab.told(MessageLockLost)
    release.set()
    await lab.until(lambda: ended == [1, 2])
    await lab.advance(10, step=1)
    assert lab.told(HandlerHung) == []


async def test_an_async_handler_is_cancelled_when_its_lock_is_lost(lab):
    told = []

    @lab.worker.handler("orders", max_lock_renewal=0)
    async def handle(context: Context):
        told.append(context.delivery_count)
        if context.attempt == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                told.append("cancelled")
                raise

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.advance(61, step=1)
    await lab.until(lambda: len(told) == 3)
    assert told == [1, "cancelled", 2]
    assert lab.told(HandlerHung) == []
    assert lab.told(HandlerFailed) == []


async def test_an_async_handler_that_refuses_to_be_cancelled_gives_up_its_place(lab):
    done, handled = asyncio.Event(), []

    @lab.worker.handler("orders", max_lock_renewal=0)
    async def handle(context: Context):
        handled.append(context.attempt)
        while context.attempt == 1 and not done.is_set():
            try:
                await done.wait()
            except asyncio.CancelledError:
                continue

    await lab.broker.send("orders", b"x")
    await lab.start()
    try:
        await lab.advance(61, step=1)
        assert handled == [1]
        await lab.advance(5, step=1)
        await lab.until(lambda: handled == [1, 2])
        assert ".handle:" in lab.told(HandlerHung)[0].where
    finally:
        done.set()


async def test_no_more_than_concurrency_hold_a_message_however_many_hang(lab, release):
    begun, most, running, one_at_a_time = [], [], [], threading.Lock()

    @lab.worker.handler("orders", concurrency=2, max_lock_renewal=0)
    def handle(context: BlockingContext):
        with one_at_a_time:
            running.append(context)
            most.append(sum(not each.is_lock_lost for each in running))
        hang(release, begun)

    await lab.broker.send_many("orders", [b"x"] * 4)
    await lab.start()
    while len(begun) < 4:  # threads begin when the machine lets them
        await lab.advance(1)
    assert max(most) == 2


async def test_the_worker_ends_with_an_error_when_too_many_hang(lab, release):
    begun = []

    @lab.worker.handler("orders", max_lock_renewal=0, max_hung=1)
    def handle(_body: bytes):
        hang(release, begun)

    await lab.broker.send_many("orders", [b"1", b"2", b"3"])
    await lab.start()
    while not lab.running.done():  # it waits for none of them
        await lab.advance(1)
    with pytest.raises(HandlersHung, match=r"2 handlers of queue 'orders' hang, and at most 1 may") as ended:
        await lab.running
    assert (ended.value.queue, ended.value.hung, ended.value.max_hung) == ("orders", 2, 1)
    assert (len(begun), release.is_set()) == (2, False)


async def test_a_hung_handler_does_not_hold_up_the_stop_nor_a_slow_worker(lab, release):
    begun, handled = [], []

    @lab.worker.handler("orders", max_lock_renewal=0, slow_down=SlowDown(after=1, first=10))
    def handle(context: BlockingContext):
        if context.attempt == 1:
            hang(release, begun)
        handled.append(context.attempt)
        if context.attempt == 2:
            raise ValueError

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: begun)
    await lab.advance(66, step=1)
    await lab.until(lambda: lab.told(WorkerSlowed))
    await lab.ticks()  # the pause has begun
    await lab.advance(10, step=1)
    await lab.until(lambda: handled == [2, 3])
    await lab.stop()
    assert lab.told(HandlerHung)


async def test_a_handler_that_settled_by_hand_and_outlasts_its_timeout_gives_up_its_place(lab, release):
    begun, handled = [], []

    @lab.worker.handler("orders", auto_complete=False, timeout=10)
    def handle(body: str, context: BlockingContext):
        handled.append(body)
        context.complete()
        if body == "1":
            hang(release, begun)

    await lab.broker.send_many("orders", ["1", "2"])
    await lab.start()
    await lab.until(lambda: begun)
    await lab.advance(16, step=1)
    await lab.until(lambda: handled == ["1", "2"])
    assert len(lab.told(HandlerHung)) == 1


async def test_a_message_that_always_hangs_ends_as_a_dead_letter(lab, release):
    begun = []

    @lab.worker.handler("orders", max_lock_renewal=0)
    def handle(_body: bytes):
        hang(release, begun)

    await lab.broker.send("orders", b"x")
    await lab.start()
    while not (await lab.counts())["dead"]:
        await lab.advance(5)
    assert len(begun) == 10
    assert not lab.running.done()


async def test_what_blocks_the_event_loop_is_named_when_the_lock_is_lost(lab):
    @lab.worker.handler("orders")
    async def handle(context: Context):
        if context.attempt == 1:
            lab.clock.advance(90)  # as time.sleep does: nobody else runs meanwhile

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: lab.told(MessageLockLost))
    (lost,) = lab.told(MessageLockLost)
    assert lost.stalled == pytest.approx(60, abs=31)
    assert "the event loop was blocked for" in str(lost)
    assert "time.sleep" in str(lost)
    await lab.stop()


async def test_what_blocks_the_event_loop_is_named_to_its_neighbours_too(lab):
    @lab.worker.handler("orders", concurrency=2)
    async def handle(body: str, context: Context):
        if context.attempt == 1 and body == "waits":
            await asyncio.Event().wait()
        elif context.attempt == 1:
            lab.clock.advance(90)

    await lab.broker.send_many("orders", ["waits", "blocks"])
    await lab.start()
    await lab.until(lambda: len(lab.told(MessageLockLost)) == 2)
    assert all(lost.stalled >= 60 for lost in lab.told(MessageLockLost))


async def test_a_renewal_that_takes_long_and_comes_too_late_is_not_the_event_loops_fault(lab, monkeypatch):
    async def slow(locks):
        await lab.clock.sleep_async(20)
        return [None] * len(locks)

    monkeypatch.setattr(lab.engine, "renew", slow)

    @lab.worker.handler("orders")
    async def handle(context: Context):
        if context.attempt == 1:
            await asyncio.Event().wait()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.advance(52, step=1)
    assert [lost.stalled for lost in lab.told(MessageLockLost)] == [0.0]


async def test_a_lock_that_ends_although_the_event_loop_runs_blames_nobody(lab):
    @lab.worker.handler("orders", max_lock_renewal=0)
    async def handle(context: Context):
        if context.attempt == 1:
            await asyncio.Event().wait()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.advance(61, step=1)
    (lost,) = lab.told(MessageLockLost)
    assert lost.stalled == 0.0
    assert "event loop" not in str(lost)


# --- what is no Exception


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()])
async def test_whatever_a_blocking_handler_raises_is_a_failure_of_its_message(lab, raised):
    handled = []

    @lab.worker.handler("orders")
    def handle(body: str):
        handled.append(body)
        if body == "bad" and handled.count("bad") == 1:
            raise raised

    await lab.broker.send_many("orders", ["bad", "good"])
    await lab.start()
    await lab.until(lambda: sorted(handled) == ["bad", "bad", "good"])
    (failed,) = lab.told(HandlerFailed)
    assert failed.outcome == "redeliver_now"
    assert failed.exception_message.startswith(f"the handler raised {type(raised).__name__}")


@pytest.mark.parametrize("raised", [SystemExit(3), GeneratorExit()])
@pytest.mark.parametrize("settings", [{}, {"timeout": 5}], ids=["plain", "timeout"])
async def test_whatever_an_async_handler_raises_is_a_failure_of_its_message(lab, raised, settings):
    handled = []

    @lab.worker.handler("orders", **settings)
    async def handle(body: str):
        handled.append(body)
        if body == "bad" and handled.count("bad") == 1:
            raise raised

    await lab.broker.send_many("orders", ["bad", "good"])
    await lab.start()
    await lab.until(lambda: sorted(handled) == ["bad", "bad", "good"])
    (failed,) = lab.told(HandlerFailed)
    assert failed.exception_message.startswith(f"the handler raised {type(raised).__name__}")


async def test_its_failure_says_where_it_was_raised(lab):
    @lab.worker.handler("orders", recoverability=Recoverability(immediate=0, delayed=None))
    def handle(_body: bytes):
        raise SystemExit(3)

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: lab.told(MessageMoved))
    (dead,) = await lab.dead()
    assert ".handle:" in dead.headers["redrive-failed-exception-source"]
    assert "SystemExit: 3" in dead.headers["redrive-failed-stack-trace"]


async def test_a_payload_that_ends_the_program_while_it_is_decoded_is_a_failure(lab):
    class Order:
        @staticmethod
        def model_validate_json(_body):
            raise SystemExit(3)

    @lab.worker.handler("orders")
    async def handle(_order: Order): ...

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: lab.told(HandlerFailed))
    assert "SystemExit" in lab.told(HandlerFailed)[0].exception_message


async def test_a_decision_that_ends_the_program_is_reported_and_ours_is_taken(lab):
    def decide(_failure):
        raise SystemExit(3)

    @lab.worker.handler("orders", recoverability=decide)
    async def handle(_body: bytes):
        raise ValueError

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: lab.told(HandlerFailed))
    assert ("RuntimeError", "recoverability orders") in lab.faults


async def test_a_handler_that_is_thrown_away_half_way_is_no_failure(lab):
    """As when a program ends without waiting for its event loop: nobody runs the coroutine, it is only closed."""

    @lab.worker.handler("orders")
    async def handle(_body: bytes):
        await never

    never = asyncio.get_running_loop().create_future()
    await lab.broker.send("orders", b"x")
    lock = (await lab.broker.receive("orders"))[0]._received
    handler = lab.worker._handlers["orders"]
    coroutine = Caller(handler, lab.clock, lambda: 0.5, print).call(HeldMessage(lock, 0.0, 60.0), None)

    async def begin():
        coroutine.send(None)

    await asyncio.create_task(begin())
    coroutine.close()
    assert coroutine.cr_frame is None


CTRL_C = """
import asyncio
from redrive import connect
from redrive.worker import Worker

worker = Worker()

@worker.handler("orders")
async def handle(body: bytes) -> None:
    raise KeyboardInterrupt

async def main():
    async with connect("sqlite:///orders.db") as broker:
        await broker.declare("orders")
        await broker.send("orders", b"x")
        await worker.run(broker)

asyncio.run(main())
"""


def test_ctrl_c_on_the_event_loop_ends_the_program_and_gives_the_message_back(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", CTRL_C], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ran.returncode == -signal.SIGINT
    assert ran.stderr.endswith("KeyboardInterrupt\n")
    with connect_blocking(f"sqlite:///{tmp_path}/orders.db") as broker:
        (message,) = broker.peek("orders")
        assert (message.state.name, message.delivery_count) == ("READY", 1)
