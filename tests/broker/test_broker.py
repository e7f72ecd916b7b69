# SPDX-License-Identifier: MIT
"""The broker as a program uses it."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta, timezone

import pytest

from redrive.broker import Broker, Complete, Message, QueueSettings, Send, State
from redrive.broker.delivery import as_message
from redrive.broker.port import Upkeep
from redrive.broker.rounds import Rounds
from redrive.clock import utc
from redrive.engines.sqlite import SqliteEngine
from redrive.errors import (
    EngineUnavailable,
    InvalidMessage,
    InvalidSetting,
    MessageNotFound,
    QueueConflict,
    QueueNotFound,
    UnknownSetting,
)
from redrive.testing import ManualClock

DEAD = "orders/$dead"


async def bury(broker, *bodies, queue="orders"):
    for body in bodies:
        await broker.send(queue, Message(body, id=body.decode()[:50], headers={"kept": True}))
    for delivery in await broker.receive(queue, max_messages=1_000):
        await delivery.dead_letter("broken")


# --- queues


async def test_declaring_again_with_the_same_settings_is_fine(broker):
    await broker.declare("orders", lock_duration=60)
    await broker.declare("orders", lock_duration=timedelta(minutes=1))
    await broker.declare("orders")


async def test_declaring_again_with_other_settings_names_the_differences(broker):
    with pytest.raises(QueueConflict) as caught:
        await broker.declare("orders", lock_duration=30, max_delivery_count=10, requires_session=True)
    assert caught.value.differences == {"lock_duration": (60.0, 30.0), "requires_session": (False, True)}
    assert (await broker.inspect("orders")).settings.lock_duration == 60


@pytest.mark.parametrize("name", ["", "a b", "orders/$dead", None])
async def test_a_wrong_name_is_refused(broker, name):
    with pytest.raises(InvalidSetting, match="queue="):
        await broker.declare(name)


async def test_an_unknown_setting_is_refused(broker):
    with pytest.raises(UnknownSetting, match=r"a queue has no setting 'lock_duraton'.*Did you mean 'lock_duration'\?"):
        await broker.declare("new", lock_duraton=5)
    with pytest.raises(UnknownSetting, match=r"a queue has no setting 'colour'; it has: lock_duration, "):
        await broker.update("orders", colour="red")
    with pytest.raises(QueueNotFound):
        await broker.inspect("new")


async def test_updating_changes_what_is_stated_only(broker):
    await broker.update("orders", max_delivery_count=3, default_ttl=timedelta(hours=1))
    assert (await broker.inspect("orders")).settings == QueueSettings(
        lock_duration=60, max_delivery_count=3, default_ttl=3_600
    )


async def test_a_wrong_update_changes_nothing(broker):
    with pytest.raises(InvalidSetting, match="max_delivery_count"):
        await broker.update("orders", lock_duration=5, max_delivery_count=0)
    assert (await broker.inspect("orders")).settings.lock_duration == 60


async def test_queues_are_listed_and_deleted(broker):
    await broker.declare("billing")
    assert [info.name for info in await broker.queues()] == ["billing", "orders"]
    await broker.delete("billing")
    assert [info.name for info in await broker.queues()] == ["orders"]


# --- sending


@pytest.mark.parametrize(
    ("payload", "body", "content_type"),
    [(b"\xff", b"\xff", None), ("ü", b"\xc3\xbc", "text/plain; charset=utf-8"), (Message(b"m"), b"m", None)],
)
async def test_a_message_its_body_or_a_text_can_be_sent(broker, payload, body, content_type):
    number = await broker.send("orders", payload)
    (seen,) = await broker.peek("orders")
    assert (seen.sequence, seen.body, seen.message.content_type) == (number, body, content_type)
    assert len(seen.id) == 32


@pytest.mark.parametrize("payload", [None, {7}])
async def test_anything_else_is_refused(broker, payload):
    with pytest.raises(InvalidMessage):
        await broker.send("orders", payload)


async def test_messages_without_an_id_are_given_one(engine, clock):
    names = iter("ab")
    broker = Broker(engine, clock=clock, new_id=lambda: next(names))
    await broker.declare("orders")
    await broker.send_many("orders", [b"1", Message(b"2", id="mine"), b"3"])
    assert [seen.id for seen in await broker.peek("orders")] == ["a", "mine", "b"]


async def test_many_are_sent_all_or_none(broker):
    with pytest.raises(InvalidMessage):
        await broker.send_many("orders", [b"1", None])
    assert await broker.peek("orders") == []
    assert await broker.send_many("orders", []) == []


@pytest.mark.parametrize(
    "at",
    [
        30,
        timedelta(seconds=30),
        datetime(2026, 1, 4, 0, 0, 30, tzinfo=UTC),
        datetime(2026, 1, 4, 2, 0, 30, tzinfo=timezone(timedelta(hours=2))),
    ],
)
async def test_a_message_is_scheduled_by_delay_or_instant(broker, clock, at):
    number = await broker.schedule("orders", b"later", at)
    (seen,) = await broker.peek("orders", states=[State.SCHEDULED])
    assert (seen.sequence, seen.due_at) == (number, utc(clock.time() + 30))


NAIVE = datetime(2026, 1, 4)  # noqa: DTZ001 - what is refused


@pytest.mark.parametrize("at", [NAIVE, -1, "tomorrow", None])
async def test_a_wrong_time_is_refused(broker, at):
    with pytest.raises(InvalidSetting, match="at"):
        await broker.schedule("orders", b"later", at)


async def test_a_wrong_time_is_refused_in_apply_too(broker):
    with pytest.raises(InvalidSetting, match="time zone"):
        await broker.apply(Send("orders", Message(b"later"), NAIVE))
    await broker.send("orders", b"one")
    (delivery,) = await broker.receive("orders")
    with pytest.raises(InvalidSetting, match="time zone"):
        await delivery.complete(Send("orders", Message(b"later"), NAIVE))


async def test_the_last_instant_there_is_can_be_scheduled_for(broker):
    await broker.schedule("orders", Message(b"never", ttl=86_400), datetime.max.replace(tzinfo=UTC))
    (seen,) = await broker.peek("orders")
    assert seen.due_at.year == 9_999


async def test_cancelling_removes_a_scheduled_message_once(broker):
    number = await broker.schedule("orders", b"later", 30)
    await broker.cancel("orders", number)
    with pytest.raises(MessageNotFound):
        await broker.cancel("orders", number)
    assert await broker.peek("orders") == []


async def test_the_users_own_statements_join_the_transaction(tmp_path, clock):
    async with Broker(SqliteEngine(tmp_path / "x.db", clock=clock), clock=clock) as broker:
        await broker.declare("orders")
        await broker.apply(inside=lambda db: db.execute("CREATE TABLE mine (n)"))
        await broker.apply(Send("orders", Message(b"1")), inside=lambda db: db.execute("INSERT INTO mine VALUES (1)"))
        with pytest.raises(QueueNotFound):
            await broker.apply(
                Send("nowhere", Message(b"2")), inside=lambda db: db.execute("INSERT INTO mine VALUES (2)")
            )
        rows = []
        await broker.apply(inside=lambda db: rows.extend(db.execute("SELECT n FROM mine")))
        assert (rows, len(await broker.peek("orders"))) == ([(1,)], 1)


async def test_an_error_in_the_users_own_part_is_his_and_undoes_his_part_only(broker):
    def fail(db):
        db.execute("CREATE TABLE mine (n)")
        raise ZeroDivisionError

    results = await asyncio.gather(
        broker.send("orders", b"mine"),
        broker.apply(Send("orders", Message(b"never")), inside=fail),
        broker.apply(Send("orders", Message(b"never")), inside=lambda db: db.execute("nonsense")),
        broker.send("orders", b"yours"),
        return_exceptions=True,
    )
    assert isinstance(results[1], ZeroDivisionError)
    assert "nonsense" in str(results[2])
    assert [seen.body for seen in await broker.peek("orders")] == [b"mine", b"yours"]


async def test_an_effect_that_is_none_fails_alone(broker):
    results = await asyncio.gather(
        broker.send("orders", b"1"), broker.apply("nonsense"), broker.send("orders", b"2"), return_exceptions=True
    )
    assert [isinstance(result, Exception) for result in results] == [False, True, False]
    assert len(await broker.peek("orders")) == 2


# --- receiving


@pytest.mark.parametrize("wrong", [0, -1, 10_001, 1.5, "1", True, None])
async def test_a_wrong_number_of_messages_is_refused(broker, wrong):
    for call in (broker.receive("orders", max_messages=wrong), broker.peek("orders", max_messages=wrong)):
        with pytest.raises(InvalidSetting, match="max_messages"):
            await call


@pytest.mark.parametrize("wait", [-1, "1", None, float("nan")])
async def test_a_wrong_wait_is_refused(broker, wait):
    with pytest.raises(InvalidSetting, match="wait"):
        await broker.receive("orders", wait=wait)


async def test_without_a_wait_an_empty_queue_answers_at_once(broker, clock):
    assert await broker.receive("orders") == []
    assert clock.slept == []


async def test_messages_come_one_after_another_until_none_is_ready(broker):
    await broker.send_many("orders", [b"%d" % number for number in range(5)])
    seen = []
    async for delivery in broker.messages("orders", max_messages=2):
        seen.append(delivery.body)
        await delivery.complete()
    assert seen == [b"0", b"1", b"2", b"3", b"4"]


async def test_deferred_messages_are_received_by_number(broker):
    await broker.send("orders", b"one")
    (delivery,) = await broker.receive("orders")
    await delivery.defer()
    (again,) = await broker.receive_deferred("orders", [delivery.sequence])
    await again.complete()
    with pytest.raises(MessageNotFound):
        await broker.receive_deferred("orders", [delivery.sequence])


# --- in bulk


async def test_purging_removes_what_can_be_received_and_says_how_far_it_is(broker):
    await broker.send_many("orders", [b"%d" % number for number in range(250)])
    (held,) = await broker.receive("orders")
    steps = []
    assert await broker.purge("orders", on_progress=steps.append) == 249
    assert (steps[-1], sorted(steps)) == (249, steps)
    assert [seen.sequence for seen in await broker.peek("orders")] == [held.sequence]
    assert await broker.purge("orders") == 0


async def test_resubmitting_sends_dead_letters_again(broker):
    await bury(broker, b"1", b"2", b"3")
    steps = []
    assert await broker.resubmit("orders", on_progress=steps.append) == 3
    assert steps == [3]
    again = await broker.receive("orders", max_messages=10)
    assert [(one.id, one.delivery_count, one.headers) for one in again] == [
        (name, 1, {"kept": True}) for name in ("1", "2", "3")
    ]
    assert await broker.peek(DEAD) == []


async def test_resubmitting_some_leaves_the_rest_free(broker):
    await bury(broker, b"1", b"2", b"3")
    assert await broker.resubmit("orders", max_messages=2) == 2
    assert [one.body for one in await broker.receive(DEAD, max_messages=10)] == [b"3"]


async def numbers_of(broker):
    return [one.sequence for one in await broker.peek(DEAD)]


async def test_dead_letters_are_received_and_resubmitted_by_their_numbers(broker):
    await bury(broker, b"1", b"2", b"3")
    first, second, third = await numbers_of(broker)
    assert await broker.resubmit("orders", sequences=[third, second]) == 2
    assert sorted(one.body for one in await broker.receive("orders", max_messages=10)) == [b"2", b"3"]
    (held,) = await broker.receive_dead("orders", [first])
    with pytest.raises(MessageNotFound):
        await broker.resubmit("orders", sequences=[first])
    await held.complete()
    assert await broker.peek(DEAD) == []


async def test_dead_letters_are_removed_by_their_numbers_all_or_none(broker):
    await bury(broker, b"1", b"2")
    first, second = await numbers_of(broker)
    with pytest.raises(MessageNotFound):
        await broker.purge(DEAD, sequences=[first, second + 100])
    assert await broker.purge(DEAD, sequences=[second]) == 1
    assert await numbers_of(broker) == [first]
    with pytest.raises(InvalidSetting, match="are for dead letters only"):
        await broker.purge("orders", sequences=[first])
    with pytest.raises(InvalidSetting, match="is a dead-letter queue"):
        await broker.resubmit(DEAD, sequences=[first])


async def test_a_chosen_dead_letter_is_neither_lost_nor_doubled_when_the_store_goes_away_in_between(
    broker, clock, monkeypatch
):
    await bury(broker, b"1", b"2")
    first, second = await numbers_of(broker)

    async def away(*_, **__):
        raise EngineUnavailable("the store does not answer")

    for call in (broker.resubmit("orders", sequences=[first]), broker.purge(DEAD, sequences=[second])):
        with monkeypatch.context() as patch:
            patch.setattr(broker.engine, "apply", away)
            with pytest.raises(EngineUnavailable):
                await call
    assert await numbers_of(broker) == [first, second]
    clock.advance(3_600)
    assert await broker.resubmit("orders", sequences=[first]) == 1
    assert await broker.purge(DEAD, sequences=[second]) == 1
    assert [one.body for one in await broker.receive("orders", max_messages=9)] == [b"1"]


async def test_a_chosen_dead_letter_that_its_queue_refuses_stays(broker):
    await bury(broker, b"1", b"too large for it")
    first, second = await numbers_of(broker)
    await broker.update("orders", max_message_bytes=40)
    found = await broker.resubmit("orders", sequences=[first, second])
    assert (int(found), [each.sequence for each in found.stayed]) in ((1, [second]), (0, [first, second]))
    assert (await broker.receive_dead("orders", [second]))[0].body == b"too large for it"


async def test_resubmitting_nothing_is_nothing(broker):
    assert await broker.resubmit("orders") == 0


async def test_a_message_that_dies_again_meanwhile_is_not_resubmitted_again(broker):
    await broker.update("orders", max_delivery_count=1)
    await bury(broker, *(b"%d" % number for number in range(150)))
    lost = []

    def fail_again(_):
        lost.append(asyncio.ensure_future(bury_what_is_ready()))

    async def bury_what_is_ready():
        for delivery in await broker.receive("orders", max_messages=1_000):
            await delivery.abandon()

    first = await broker.resubmit("orders", on_progress=fail_again)
    await asyncio.gather(*lost)
    await bury_what_is_ready()
    assert first == 150
    assert len(await broker.receive(DEAD, max_messages=1_000)) == 150, (
        "and they are free, not locked by the resubmitting"
    )


@pytest.mark.parametrize("bad", [[2], [0, 5], list(range(6))], ids=["one", "the first and the last", "all"])
async def test_a_dead_letter_that_cannot_be_sent_stays_and_holds_up_nobody(broker, bad):
    bodies = [b"x" * 2_000 if number in bad else b"%d" % number for number in range(6)]
    await bury(broker, *bodies)
    await broker.update("orders", max_message_bytes=1_000)
    steps = []
    done = await broker.resubmit("orders", on_progress=steps.append)
    assert (done, steps[-1:]) == (6 - len(bad), [6 - len(bad)] if len(bad) < 6 else [])
    assert [stayed.sequence for stayed in done.stayed] == [number + 1 for number in bad]
    assert all("2,025 bytes is too large" in stayed.reason for stayed in done.stayed)
    assert (done.locked, done.locked_until) == (0, None)
    left = await broker.receive(DEAD, max_messages=10)
    assert [(one.sequence, one.delivery_count) for one in left] == [(number + 1, 1) for number in bad]
    assert [one.body for one in await broker.receive("orders", max_messages=10)] == [b for b in bodies if len(b) == 1]


@pytest.mark.parametrize("lock_duration", [60, 0.001])
async def test_many_dead_letters_that_cannot_be_sent_hold_up_nobody(broker, clock, lock_duration):
    await broker.declare("many", lock_duration=lock_duration)
    await bury(broker, *(b"x" * 20 + b"%d" % number for number in range(250)), b"good", queue="many")
    await broker.update("many", max_message_bytes=30)
    clock_moves = lock_next_that_takes_time(broker, clock, 0.01)
    done = await broker.resubmit("many")
    clock_moves()
    assert (done, len(done.stayed)) == (1, 250)
    assert "<Resubmitted 1, 250 stayed, 0 locked>" in repr(done)
    assert (await broker.inspect("many/$dead")).ready == 250


def lock_next_that_takes_time(broker, clock, seconds):
    """Let time pass with every receive, so that locks may end in between; return what ends it."""
    engine = broker.engine
    original = engine.lock_next

    async def slow(*args, **kwargs):
        clock.advance(seconds)
        return await original(*args, **kwargs)

    engine.lock_next = slow
    return lambda: delattr(engine, "lock_next")


async def test_resubmitting_tells_of_dead_letters_that_somebody_has(broker, clock):
    await bury(broker, b"1", b"2", b"3")
    (first,) = await broker.receive(DEAD)
    clock.advance(10)
    (second,) = await broker.receive(DEAD)
    done = await broker.resubmit("orders")
    assert (done, done.stayed, done.locked, done.locked_until) == (1, (), 2, second.locked_until)
    await first.complete()
    await second.complete()


async def test_resubmitting_that_fails_gives_back_what_it_had(broker):
    await bury(broker, b"1", b"2")

    def fail(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await broker.resubmit("orders", max_messages=1, on_progress=fail)
    assert (await broker.inspect(DEAD)).ready == 1


async def test_a_dead_letter_without_its_session_stays(broker):
    await broker.declare("steps", requires_session=True)
    await broker.send_many("steps/$dead", [Message(b"none"), Message(b"one", session_id="A")])
    done = await broker.resubmit("steps")
    assert (done, [stayed.reason for stayed in done.stayed]) == (
        1,
        ["queue 'steps' has sessions: give the message a session_id"],
    )


async def test_resubmitting_loses_nothing_to_duplicate_detection(broker):
    await broker.declare("once", duplicate_detection=3_600)
    await bury(broker, b"1", queue="once")
    await broker.resubmit("once")
    ready, dead = await broker.peek("once"), await broker.peek("once/$dead")
    assert [one.id for one in [*ready, *dead]] == ["1"]


# --- opening, upkeep and closing


class Failing:
    """An engine whose upkeep fails the first time and has much to do the second and third."""

    def __init__(self, failure):
        self.rounds = iter([failure, Upkeep(is_finished=False), Upkeep(is_finished=False)])
        self.calls = 0

    async def open(self):
        pass

    async def close(self):
        pass

    async def upkeep(self):
        self.calls += 1
        result = next(self.rounds, Upkeep())
        if isinstance(result, Exception):
            raise result
        return result


async def turns():
    for _ in range(20):
        await ManualClock(auto_advance=True).sleep_async(0.0)


@pytest.mark.parametrize("failure", [EngineUnavailable("no disk"), ZeroDivisionError("no disk")])
async def test_upkeep_goes_on_after_a_failure_and_until_it_is_finished(caplog, failure):
    engine, clock = Failing(failure), ManualClock()
    async with Broker(engine, clock=clock, upkeep_every=5):
        with caplog.at_level(logging.WARNING):
            await turns()
        assert (engine.calls, "no disk" in caplog.text) == (1, True)
        clock.advance(5)
        await turns()
        assert engine.calls == 4, "at once, while there is more to do"
        clock.advance(4.9)
        await turns()
        assert engine.calls == 4
        clock.advance(0.1)
        await turns()
        assert engine.calls == 5


class Forgetful:
    """What cannot store the history the first time."""

    def __init__(self, failure):
        self.failures = iter([failure])
        self.stored = 0

    async def upkeep(self):
        return Upkeep()

    async def flush_tallies(self):
        if (failure := next(self.failures, None)) is not None:
            raise failure
        self.stored += 1


@pytest.mark.parametrize("failure", [EngineUnavailable("no disk"), ZeroDivisionError("no disk")])
async def test_the_history_is_stored_after_a_failure(caplog, failure):
    engine, clock = Forgetful(failure), ManualClock()
    rounds = asyncio.create_task(Rounds(engine, engine, clock, every=1_000).run())
    for _ in range(2):
        await turns()
        clock.advance(1)
    await turns()
    rounds.cancel()
    assert (engine.stored, "no disk" in caplog.text) == (1, True)


async def test_upkeep_happens_by_itself(clock):
    async with Broker(SqliteEngine(":memory:", clock=clock), clock=clock) as broker:
        await broker.declare("orders", default_ttl=10)
        await broker.send("orders", b"short-lived")
        await turns()
        clock.advance(10)
        await turns()
        assert (await broker.inspect("orders")).ready == 0


async def test_a_broker_can_be_opened_again(tmp_path, clock):
    broker = Broker(SqliteEngine(tmp_path / "x.db", clock=clock), clock=clock)
    async with broker:
        await broker.declare("orders")
        await broker.send("orders", b"kept")
    async with broker:
        assert [seen.body for seen in await broker.peek("orders")] == [b"kept"]
    await broker.close()


async def test_settling_and_sending_is_one_step(broker):
    await broker.send("orders", b"one")
    (delivery,) = await broker.receive("orders")
    none, number = await broker.apply(Complete(delivery.lock), Send("orders", Message(b"two")))
    assert none is None
    assert [(seen.body, seen.sequence) for seen in await broker.peek("orders")] == [(b"two", number)]


def test_a_message_stays_as_it_is():
    message = Message(b"x", id="1")
    assert as_message(message) is message
