# SPDX-License-Identifier: MIT
"""Sessions served by the worker: several at a time, one message of each at a time, in order whatever fails."""

import asyncio
from collections import defaultdict

import pytest

import redrive
from redrive.broker import Message
from redrive.errors import InvalidSetting, UsageError
from redrive.worker import (
    BlockingContext,
    Context,
    HandlerFailed,
    MessageLockLost,
    MessageMoved,
    Recoverability,
    SlowDown,
    Worker,
    WorkerSlowed,
)
from redrive.worker.session_receiver import SessionReceiver
from tests.patience import PATIENCE_S

QUEUE = "events"


@pytest.fixture
async def events(lab):
    """A queue with sessions; sends messages such as ``a1``, whose session is ``a``."""
    await lab.broker.declare(QUEUE, requires_session=True)

    async def send(*bodies):
        await lab.broker.send_many(QUEUE, [Message(body.encode(), session_id=body[0]) for body in bodies])

    return send


async def free_sessions(lab):
    """The sessions that could be accepted now; they are given back."""
    found = []
    while (lock := await lab.engine.lock_session(QUEUE, None)) is not None:
        found.append(lock)
    for lock in found:
        await lab.engine.release_session(lock)
    return sorted(lock.session_id for lock in found)


async def test_each_session_is_handled_in_order(lab, events):
    handled = []

    @lab.worker.handler(QUEUE, concurrency=3)
    async def handle(body: str, context: Context):
        await lab.clock.sleep_async(0)
        handled.append((context.session.id, body))

    await events("a1", "b1", "a2", "c1", "a3", "b2", "d1")
    await lab.worker.run(lab.broker, until_idle=True)
    assert sorted(handled) == sorted(handled, key=lambda each: each[0])
    for name, bodies in {"a": ["a1", "a2", "a3"], "b": ["b1", "b2"], "c": ["c1"], "d": ["d1"]}.items():
        assert [body for session, body in handled if session == name] == bodies
    assert await lab.counts(QUEUE) == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}
    assert lab.events == []


async def test_as_many_sessions_as_concurrency_are_held_and_one_message_of_each(lab, events):
    inside, go_on = [], asyncio.Event()

    @lab.worker.handler(QUEUE, concurrency=2)
    async def handle(body: str):
        inside.append(body)
        await go_on.wait()

    await events("a1", "a2", "b1", "b2", "c1")
    await lab.start()
    await lab.until(lambda: len(inside) == 2)
    await lab.ticks()
    assert sorted(inside) == ["a1", "b1"]
    assert await free_sessions(lab) == ["c"]
    go_on.set()
    await lab.until(lambda: len(inside) == 5)
    await lab.stop()


async def test_a_blocking_handler_has_sessions_too(lab, events):
    handled = []

    @lab.worker.handler(QUEUE, concurrency=2)
    def handle(body: str, context: BlockingContext):
        handled.append(body)
        context.session.set_state(body.encode())

    await events("a1", "b1", "a2")
    await lab.worker.run(lab.broker, until_idle=True)
    assert [body for body in handled if body[0] == "a"] == ["a1", "a2"]
    assert (await lab.broker.accept_session(QUEUE, "a")).state == b"a2"


async def test_the_state_is_stored_with_the_completion_and_not_if_the_handler_fails(lab, events):
    seen = []

    @lab.worker.handler(QUEUE, recoverability=Recoverability(immediate=1, delayed=None))
    async def handle(body: str, context: Context):
        session = context.session
        seen.append((body, session.state))
        session.set_state(b"never")
        session.set_state((session.state or b"") + b"!")
        session.set_state(body.encode())
        assert session.state == body.encode()
        if body == "a2" and context.attempt == 1:
            raise ConnectionError
        if body == "a3":
            await context.dead_letter("Rejected")

    await events("a1", "a2", "a3", "a4")
    await lab.worker.run(lab.broker, until_idle=True)
    assert seen == [("a1", None), ("a2", b"a1"), ("a2", b"a1"), ("a3", b"a2"), ("a4", b"a3")]
    assert (await lab.broker.accept_session(QUEUE, "a")).state == b"a4"


async def test_a_state_can_be_stored_with_the_handlers_own_sql(lab, events):
    await lab.broker.apply(inside=lambda db: db.execute("CREATE TABLE notes (note TEXT)"))

    @lab.worker.handler(QUEUE)
    async def handle(body: str, context: Context):
        context.session.set_state(body.encode())
        await context.complete(inside=lambda db: db.execute("INSERT INTO notes VALUES (?)", (body,)))

    await events("a1")
    await lab.worker.run(lab.broker, until_idle=True)
    assert (await lab.broker.accept_session(QUEUE, "a")).state == b"a1"


async def test_a_state_is_bytes(lab, events):
    @lab.worker.handler(QUEUE, recoverability=Recoverability(immediate=0, delayed=None))
    async def handle(_body: str, context: Context):
        with pytest.raises(InvalidSetting, match="must be bytes"):
            context.session.set_state("text")
        context.session.set_state(None)

    await events("a1")
    await lab.worker.run(lab.broker, until_idle=True)
    assert lab.events == []


async def test_a_queue_without_sessions_has_none_in_its_contexts(lab):
    asked = []

    @lab.worker.handler("orders")
    async def handle(_body: str, context: Context):
        with pytest.raises(UsageError, match="requires_session=True"):
            asked.append(context.session)
        asked.append(None)

    await lab.broker.send("orders", b"x")
    await lab.worker.run(lab.broker, until_idle=True)
    assert asked == [None]


async def test_a_message_that_fails_holds_up_its_session_and_no_other(lab, events):
    handled = []

    @lab.worker.handler(QUEUE, recoverability=Recoverability(immediate=1, delayed=[5, 100]))
    async def handle(body: str, context: Context):
        handled.append((body, lab.clock.monotonic(), context.attempt))
        if body == "a1":
            raise ConnectionError

    await events("a1", "a2", "b1")
    await lab.start()
    await lab.ticks()
    assert handled == [("a1", 0.0, 1), ("a1", 0.0, 2), ("b1", 0.0, 1)]
    assert await free_sessions(lab) == []
    await lab.advance(5)
    assert handled[3:] == [("a1", 5.0, 3), ("a1", 5.0, 4)]
    await lab.advance(99, step=9)
    assert len(handled) == 5
    await lab.advance(1)
    assert handled[5:] == [("a1", 105.0, 5), ("a1", 105.0, 6), ("a2", 105.0, 1)]
    assert [event.reason for event in lab.told(MessageMoved)] == ["MaxDelayedRetries"]
    await lab.stop()
    assert await lab.counts(QUEUE) == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 1}


async def test_a_session_that_is_held_up_stays_so_when_the_worker_stops(lab, events):
    @lab.worker.handler(QUEUE, recoverability=Recoverability(immediate=0, delayed=[50]))
    async def handle(_body: str):
        raise ConnectionError

    await events("a1")
    await lab.worker.run(lab.broker, until_idle=True)
    await lab.advance(49)
    assert await free_sessions(lab) == []
    await lab.advance(1)
    assert await free_sessions(lab) == ["a"]


async def test_the_lock_of_a_session_is_renewed_while_its_message_is_handled(lab, events):
    go_on, handled = asyncio.Event(), []

    @lab.worker.handler(QUEUE)
    async def handle(body: str, context: Context):
        if body == "a1":
            await go_on.wait()
            await context.renew()
        handled.append(body)

    await events("a1", "a2")
    await lab.start()
    await lab.advance(200, step=5)
    assert await free_sessions(lab) == []
    go_on.set()
    await lab.until(lambda: handled == ["a1", "a2"])
    await lab.stop()
    assert lab.told(MessageLockLost) == []
    assert (await lab.counts(QUEUE))["ready"] == 0


async def test_a_session_with_many_messages_is_renewed_between_them_and_lets_others_have_a_turn(lab, events):
    handled = []

    @lab.worker.handler(QUEUE, max_lock_renewal=0)
    async def handle(body: str):
        handled.append(body[0])
        lab.clock.advance(1)

    await events(*(f"a{number}" for number in range(50)), "b0", *(f"a{number}" for number in range(50, 150)))
    await lab.worker.run(lab.broker, until_idle=True)
    assert handled == ["a"] * 100 + ["b"] + ["a"] * 50
    assert lab.told(MessageLockLost) == []


async def test_a_lock_that_is_lost_gives_the_session_to_the_next(lab, events):
    handled, go_on = [], asyncio.Event()

    @lab.worker.handler(QUEUE, max_lock_renewal=0)
    async def handle(body: str, context: Context):
        handled.append((body, context.attempt))
        if len(handled) == 1:
            await go_on.wait()

    await events("a1", "a2")
    await lab.start()
    await lab.advance(61, step=1)
    await lab.advance(12, step=1)
    assert handled == [("a1", 1), ("a1", 2), ("a2", 1)]
    await lab.stop()
    assert len(lab.told(MessageLockLost)) == 1


async def test_stopping_lets_the_running_message_finish_and_gives_its_session_back(lab, events):
    begun, go_on, handled = asyncio.Event(), asyncio.Event(), []

    @lab.worker.handler(QUEUE, concurrency=4)
    async def handle(body: str):
        begun.set()
        await go_on.wait()
        handled.append(body)

    await events("a1", "a2")
    await lab.start()
    await begun.wait()
    lab.worker.stop()
    await lab.ticks()
    assert not lab.running.done()
    go_on.set()
    await lab.running
    assert handled == ["a1"]
    assert await free_sessions(lab) == ["a"]
    assert await lab.counts(QUEUE) == {"ready": 1, "locked": 0, "scheduled": 0, "dead": 0}


async def test_stopping_now_gives_everything_back_in_order(lab, events):
    begun = asyncio.Event()

    @lab.worker.handler(QUEUE)
    async def handle(_body: str):
        begun.set()
        await asyncio.Event().wait()

    await events("a1", "a2")
    await lab.start()
    await begun.wait()
    await lab.stop(now=True)
    session = await lab.broker.accept_session(QUEUE)
    assert [each.body for each in await session.receive(max_messages=9)] == [b"a1", b"a2"]


async def test_an_idle_session_is_given_back(lab, events):
    handled = []
    lab.worker.handler(QUEUE)(handled.append)
    await events("a1")
    await lab.start()
    await lab.until(lambda: handled)
    await lab.ticks()
    session = await lab.broker.accept_session(QUEUE, "a")
    assert session is not None
    await session.release()
    await events("a2", "b1")
    await lab.until(lambda: len(handled) == 3)
    await lab.stop()


async def test_a_worker_that_slows_down_gives_its_sessions_back_and_tries_one_message(lab, events):
    tried = []

    @lab.worker.handler(
        QUEUE,
        concurrency=3,
        recoverability=Recoverability(immediate=5, delayed=None),
        slow_down=SlowDown(after=3, first=10, longest=10),
    )
    async def handle(body: str):
        tried.append((lab.clock.monotonic(), body))
        if lab.clock.monotonic() < 20:
            raise ConnectionError

    await events("a1", "b1", "c1")
    await lab.start()
    await lab.ticks()
    assert len(lab.told(WorkerSlowed)) == 1
    assert len(tried) == 3
    assert await free_sessions(lab) == ["a", "b", "c"]
    await lab.advance(10)
    assert len(tried) == 4  # one message, not one of each session
    await lab.advance(10)
    await lab.until(lambda: len(tried) == 7)
    await lab.stop()
    assert await lab.counts(QUEUE) == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


async def test_stopping_while_a_session_is_being_given_back_waits_for_that(lab, events, monkeypatch):
    """A worker that slowed down gives its sessions back; if it is stopped meanwhile, it must not wait for ever."""
    releasing, go_on = asyncio.Event(), asyncio.Event()
    release = lab.engine.release_session

    async def release_slowly(*args):
        releasing.set()
        await go_on.wait()
        await release(*args)

    monkeypatch.setattr(lab.engine, "release_session", release_slowly)
    lab.worker.handler(QUEUE)(lambda _body: None)
    await events("a1")
    await lab.start()
    await releasing.wait()
    lab.worker.stop()
    await lab.ticks()
    assert not lab.running.done()
    go_on.set()
    async with asyncio.timeout(PATIENCE_S):
        await lab.running
    assert await free_sessions(lab) == []  # it is empty
    await events("a2")
    assert await free_sessions(lab) == ["a"]


async def test_a_session_that_was_accepted_while_the_worker_stops_is_given_back(lab, events, monkeypatch):
    """It is not even looked at: its task has not begun when it is told to leave."""
    lab.worker.handler(QUEUE)(lambda _body: None)
    accept = SessionReceiver._accept

    async def accept_and_clear(receiver):
        found = await accept(receiver)
        receiver.clear()
        lab.worker.stop()
        return found

    monkeypatch.setattr(SessionReceiver, "_accept", accept_and_clear)
    await events("a1")
    await lab.start()
    async with asyncio.timeout(PATIENCE_S):
        await lab.running
    assert await free_sessions(lab) == ["a"]
    assert await lab.counts(QUEUE) == {"ready": 1, "locked": 0, "scheduled": 0, "dead": 0}


async def test_a_store_that_goes_away_costs_no_message_and_no_order(lab, events):
    handled = []
    lab.worker.handler(QUEUE)(handled.append)
    await events("a1", "a2")
    lab.engine.broken.add("lock_in_session")
    await lab.start()
    await lab.advance(100, step=1)
    lab.engine.broken.clear()
    await lab.advance(200, step=1)
    await lab.stop()
    assert handled == [b"a1", b"a2"]


@pytest.mark.parametrize("settings", [{"prefetch": 5}, {"receive_and_delete": True}])
@pytest.mark.usefixtures("events")
async def test_what_does_not_go_with_sessions_is_refused(lab, settings):
    lab.worker.handler(QUEUE, **settings)(lambda _body: None)
    with pytest.raises(InvalidSetting, match=f"{next(iter(settings))}=.*sessions"):
        await lab.worker.run(lab.broker, until_idle=True)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/events.db"
    where, schema = request.getfixturevalue("postgres_url"), request.getfixturevalue("emptied_schema")
    return f"{where}{'&' if '?' in where else '?'}schema={schema}"


async def test_two_workers_keep_the_order_of_every_session_whatever_fails(url):
    finished, running = defaultdict(list), set()
    failing = {("a", 2), ("b", 0), ("c", 4), ("e", 4)}
    events = []

    def new_worker(name):
        worker = Worker(name, on_event=events.append)

        @worker.handler(
            QUEUE, concurrency=3, recoverability=Recoverability(immediate=1, delayed=[0.001]), slow_down=None
        )
        async def handle(number: int, context: Context):
            session = context.session
            assert session.id not in running
            running.add(session.id)
            await asyncio.to_thread(int)  # the others run meanwhile
            running.discard(session.id)
            assert session.state == (str(finished[session.id][-1]).encode() if finished[session.id] else None)
            if (session.id, number) in failing and context.attempt < 4:
                raise ConnectionError
            if number == 3:
                raise ValueError("it never works")
            session.set_state(str(number).encode())
            finished[session.id].append(number)

        return worker

    async with redrive.connect(url) as one, redrive.connect(url) as two:
        await one.declare(QUEUE, requires_session=True)
        sends = [Message.of(number, session_id=name) for number in range(6) for name in "abcdef"]
        await one.send_many(QUEUE, sends)
        workers = [(new_worker("one"), one), (new_worker("two"), two)]
        while (await one.inspect(QUEUE)).ready:
            await asyncio.gather(*(worker.run(broker, until_idle=True) for worker, broker in workers))
        info = await one.inspect(QUEUE)
    assert finished == {name: [0, 1, 2, 4, 5] for name in "abcdef"}
    assert (info.ready, info.locked, info.scheduled, info.dead) == (0, 0, 0, 6)
    assert {type(event) for event in events} == {HandlerFailed, MessageMoved}
