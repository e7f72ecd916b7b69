# SPDX-License-Identifier: MIT
"""A broker that calls again while its store does not answer, and never does a thing twice."""

import asyncio

import pytest

from redrive import connect, connect_blocking
from redrive.broker import BlockingBroker, Broker, Complete, Message, Send
from redrive.broker.retry_engine import RetryingEngine
from redrive.engines.sqlite import SqliteEngine
from redrive.errors import (
    AttemptTimeout,
    EngineBusy,
    EngineUnavailable,
    InvalidSetting,
    QueueNotFound,
    StorageDamaged,
    StorageReadOnly,
)
from redrive.retry import Exponential, Fixed, deadline, retry
from redrive.testing import ManualClock
from redrive.worker import Worker

AZURES = Exponential(min=0.8, max=30, jitter="none", max_attempts=4)


class Flaky(SqliteEngine):
    """A SQLite engine that fails as often as it is told, before anything is done."""

    def __init__(self, clock, failures=0, error=EngineUnavailable):
        super().__init__(":memory:", clock=clock)
        self.failures = failures
        self.error = error
        self.calls = 0
        self.only = None

    def fail(self, verb):
        if self.only not in (None, verb):
            return
        self.calls += 1
        if self.failures:
            self.failures -= 1
            raise self.error("not today")

    async def open(self):
        self.fail("open")
        await super().open()

    async def apply(self, effects):
        self.fail("apply")
        return await super().apply(effects)

    async def apply_inside(self, effects, inside):
        self.fail("apply")
        return await super().apply_inside(effects, inside)

    async def lock_next(self, queue, limit, **how):
        self.fail("lock_next")
        return await super().lock_next(queue, limit, **how)

    async def inspect(self, name=None):
        self.fail("inspect")
        return await super().inspect(name)


@pytest.fixture
async def site():
    """A broker that retries as Azure's client does, its engine, and a clock that is advanced by whoever waits."""
    clock = ManualClock()
    engine = Flaky(clock)
    async with Broker(engine, clock=clock, retry=AZURES, upkeep_every=1_000) as broker:
        await broker.declare("orders")
        engine.calls = 0
        yield broker, engine, clock


async def finished(clock, doing):
    """Wait for something that waits for the clock; return how long it took by that clock."""
    task, began = asyncio.ensure_future(doing), clock.monotonic()
    while not task.done():
        await clock.sleep_async(0)
        await clock.sleep_async(0)
        if not task.done():
            clock.advance(0.1)
    await asyncio.wait([task])
    return task, clock.monotonic() - began


async def test_a_call_is_made_again_until_the_store_answers(site):
    broker, engine, clock = site
    engine.failures = 3
    task, took = await finished(clock, broker.send("orders", b"x"))
    assert task.result() == 1
    assert (engine.calls, took >= 0.8 + 1.6 + 3.2) == (4, True)
    assert (await broker.inspect("orders")).ready == 1


async def test_the_last_failure_is_raised_as_it_is(site):
    broker, engine, clock = site
    engine.failures = 4
    task, _ = await finished(clock, broker.send("orders", b"x"))
    with pytest.raises(EngineUnavailable, match="not today"):
        task.result()
    assert engine.calls == 4


@pytest.mark.parametrize("do", ["receive", "inspect", "settle", "purge"])
async def test_receiving_settling_and_looking_are_retried_too(site, do):
    broker, engine, clock = site
    await broker.send("orders", b"x")
    (message,) = await broker.receive("orders")
    calls = {
        "receive": lambda: broker.receive("orders"),
        "inspect": lambda: broker.inspect("orders"),
        "settle": message.complete,
        "purge": lambda: broker.purge("orders"),
    }
    engine.failures = 1
    task, _ = await finished(clock, calls[do]())
    task.result()
    assert engine.failures == 0


async def test_opening_is_retried():
    clock = ManualClock()
    broker = Broker(Flaky(clock, failures=2), clock=clock, retry=AZURES)
    task, _ = await finished(clock, broker.__aenter__())
    task.result()
    await broker.close()


@pytest.mark.parametrize("lasting", [StorageDamaged, StorageReadOnly, QueueNotFound])
async def test_what_lasts_is_not_retried(site, lasting):
    broker, engine, _ = site
    engine.failures, engine.error = 1, lasting
    with pytest.raises(lasting):
        await broker.send("orders", b"x")
    assert engine.calls == 1


async def test_what_may_have_been_done_is_not_done_again(site):
    class Unsure(EngineUnavailable):
        may_be_done = True

    broker, engine, _ = site
    engine.failures, engine.error = 1, Unsure
    with pytest.raises(Unsure):
        await broker.send("orders", b"x")
    assert engine.calls == 1


async def test_a_part_of_the_users_own_is_run_once(site):
    broker, engine, _ = site
    engine.failures, engine.error = 1, EngineBusy
    with pytest.raises(EngineBusy):
        await broker.apply(Send("orders", Message(b"x")), inside=lambda _connection: None)
    assert engine.calls == 1


async def test_inside_a_retry_of_the_callers_own_there_is_no_other(site):
    broker, engine, clock = site
    engine.failures = 10
    mine = retry(on=EngineUnavailable, policy=Fixed(1, max_attempts=2), deadline=100, clock=clock)
    task, _ = await finished(clock, mine.call_async(broker.send, "orders", b"x"))
    with pytest.raises(EngineUnavailable):
        task.result()
    assert engine.calls == 2


async def test_without_a_policy_the_first_failure_is_raised():
    clock = ManualClock()
    engine = Flaky(clock)
    async with Broker(engine, clock=clock, upkeep_every=1_000) as broker:
        await broker.declare("orders")
        engine.failures = 1
        with pytest.raises(EngineUnavailable):
            await broker.send("orders", b"x")
        assert broker.engine is engine


async def test_a_worker_follows_its_own_policy_only(site):
    broker, engine, clock = site
    worker = Worker(reconnect=Fixed(20, jitter="none", max_attempts=2))
    handled = []

    @worker.handler("orders")
    async def handle(body: bytes):
        handled.append(body)
        engine.calls, engine.failures, engine.only = 0, 1, "apply"
        worker.stop()

    await broker.send("orders", b"x")
    task, took = await finished(clock, worker.run(broker))
    task.result()
    assert (handled, engine.calls, took >= 20) == ([b"x"], 2, True)
    assert broker.engine is engine


# --- limits of a client, and of one call


class Hanging(Flaky):
    """An engine that takes longer than anybody waits, as often as it is told, and does it all the same."""

    hangs = 0

    async def late(self, doing):
        result = await doing
        if self.hangs:
            self.hangs -= 1
            await asyncio.get_running_loop().create_future()
        return result

    async def apply(self, effects):
        return await self.late(super().apply(effects))

    async def inspect(self, name=None):
        return await self.late(super().inspect(name))


def limited(clock, **settings):
    """Return a broker with limits, and its engine."""
    engine = Hanging(clock)
    given = retry(on=EngineUnavailable, policy=Fixed(1, jitter="none", max_attempts=5), **settings)
    return Broker(engine, clock=clock, retry=given, upkeep_every=1_000), engine


async def test_a_client_has_a_deadline_for_each_call():
    clock = ManualClock()
    broker, engine = limited(clock, deadline=2.5)
    async with broker:
        await broker.declare("orders")
        engine.calls, engine.failures = 0, 100
        task, took = await finished(clock, broker.send("orders", b"x"))
        with pytest.raises(EngineUnavailable):
            task.result()
        assert (engine.calls, 2 <= took <= 2.5) == (3, True)


async def test_an_attempt_that_takes_too_long_is_made_again_if_that_changes_nothing():
    clock = ManualClock()
    broker, engine = limited(clock, attempt_timeout=3)
    async with broker:
        await broker.declare("orders")
        engine.calls, engine.hangs = 0, 2
        task, took = await finished(clock, broker.inspect("orders"))
        assert (task.result().ready, engine.calls, took >= 3 + 1 + 3 + 1) == (0, 3, True)


async def test_a_send_that_takes_too_long_is_never_sent_again():
    clock = ManualClock()
    broker, engine = limited(clock, attempt_timeout=3)
    async with broker:
        await broker.declare("orders")
        engine.hangs = 1
        task, _ = await finished(clock, broker.send("orders", b"x"))
        with pytest.raises(AttemptTimeout, match="apply was cut off after 3 s"):
            task.result()
        assert (await broker.inspect("orders")).ready == 1
        engine.failures = 1  # what was certainly not done is, with the same limit
        task, _ = await finished(clock, broker.send("orders", b"y"))
        assert task.result() == 2


async def test_what_is_deleted_as_it_is_received_is_never_cut_off():
    clock = ManualClock()
    broker, engine = limited(clock, attempt_timeout=3, deadline=5)
    slow = engine.lock_next

    async def slowly(queue, limit, **how):
        await clock.sleep_async(20)
        return await slow(queue, limit, **how)

    engine.lock_next = slowly
    async with broker:
        await broker.declare("orders")
        await broker.send("orders", b"x")
        task, took = await finished(clock, broker.receive("orders", delete=True))
        assert ([one.body for one in task.result()], took >= 20) == ([b"x"], True)


async def test_a_retry_says_itself_what_it_retries():
    clock = ManualClock()
    engine = Flaky(clock)
    choosy = retry(on=EngineBusy, policy=Fixed(1, max_attempts=5))
    async with Broker(engine, clock=clock, retry=choosy, upkeep_every=1_000) as broker:
        await broker.declare("orders")
        engine.failures, engine.calls = 1, 0
        with pytest.raises(EngineUnavailable):
            await broker.send("orders", b"x")
        engine.failures, engine.error = 1, EngineBusy
        task, _ = await finished(clock, broker.send("orders", b"x"))
        assert (task.result(), engine.calls) == (1, 3)


async def test_one_call_can_have_less_time_than_its_client_gives(site):
    broker, engine, clock = site
    engine.failures = 100

    async def hurried():
        with deadline(1.0, clock=clock):
            await broker.send("orders", b"x")

    task, took = await finished(clock, hurried())
    with pytest.raises(EngineUnavailable):
        task.result()
    assert (engine.calls, took <= 1.0) == (2, True)


def test_the_deadline_around_a_blocking_call_counts_too():
    clock = ManualClock()
    engine = Flaky(clock)
    broker = BlockingBroker(Broker(engine, clock=clock, retry=AZURES, upkeep_every=1_000))
    with broker:
        broker.declare("orders")
        engine.calls, engine.failures = 0, 100
        with pytest.raises(EngineUnavailable), deadline(0.5, clock=clock):
            broker.send("orders", b"x")
        assert engine.calls == 1
        mine = retry(on=EngineUnavailable, policy=Fixed(0, max_attempts=2), deadline=100)
        engine.calls = 0
        with pytest.raises(EngineUnavailable):
            mine.call(broker.send, "orders", b"x")
        assert engine.calls == 2


def test_what_is_no_policy_is_refused():
    with pytest.raises(InvalidSetting, match="retry=3: must be a policy object"):
        connect("sqlite:///:memory:", retry=3)


def test_a_blocking_broker_retries_too():
    broker = connect_blocking("sqlite:///:memory:", retry=AZURES)
    assert isinstance(broker._inner._engine, RetryingEngine)


async def test_a_restart_of_the_server_is_waited_for_and_nothing_is_sent_twice(breakable_postgres, breakable_url):
    patient = Exponential(min=0.2, max=1, max_attempts=50)
    async with connect(breakable_url, retry=patient) as broker:
        await broker.declare("orders")
        sending = [asyncio.create_task(send_all(broker, range(n, 200, 4))) for n in range(4)]
        for _ in range(3):
            await asyncio.to_thread(breakable_postgres.stop, "immediate")
            await asyncio.to_thread(breakable_postgres.start)
        await asyncio.gather(*sending)
        received = [one async for one in broker.messages("orders")]
        await broker.apply(*(Complete(one.lock) for one in received))
        assert sorted(int(one.body) for one in received) == list(range(200))


async def send_all(broker, numbers):
    for number in numbers:
        await broker.send("orders", str(number))
