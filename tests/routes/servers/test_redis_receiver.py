# SPDX-License-Identifier: MIT
"""The Redis receiver on a real server: what is acknowledged and what comes again, through every kind of trouble."""

import asyncio
import json

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import RedisError

from redrive.errors import EngineUnavailable, InvalidSetting, MessageTooLarge, MissingExtra
from redrive.routes.ack_tree import Ack
from redrive.routes.receivers.redis_stream import RedisStreamReceiver
from redrive.routes.receivers.source_events import EventSetAside, SourceBack, SourceLost
from tests.routes.servers.intakes import RecordingIntake, environment, eventually, nack, running, stop


@pytest_asyncio.fixture
async def client(valkey):
    """A client of the tests' own."""
    async with Redis.from_url(valkey.url) as client:
        yield client


@pytest.fixture
def part(valkey, name):
    """Make a receiver of a stream that no other test has."""

    def make(**settings):
        return RedisStreamReceiver(
            **{"url": valkey.url, "stream": name, "start": "earliest", "min_idle": 60} | settings
        )

    return make


async def pending(client, stream, group="redrive"):
    """Return how many entries are delivered and not acknowledged."""
    return (await client.xpending(stream, group))["pending"]


async def settled(client, stream, group="redrive"):
    """Wait until every entry was delivered, and none is pending."""

    async def holds():
        groups = await client.xinfo_groups(stream) if await client.exists(stream) else []
        return any(each["name"].decode() == group and each["pending"] == each["lag"] == 0 for each in groups)

    await eventually(holds, "a group without pending entries")


def dead(events):
    return [event for event in events if isinstance(event, EventSetAside)]


# --- what an entry becomes


async def test_an_entry_becomes_an_event_and_is_acknowledged(part, client, name):
    added = await client.xadd(name, {"body": b"\x00\xff", "tenant": "north", "raw": b"\xff", "content-type": "x/y"})
    intake = RecordingIntake()
    async with running(part(), intake):
        await intake.has(1)
        await settled(client, name)
    message = intake.messages[0]
    assert message.body == b"\x00\xff"
    assert message.id == f"redis:{name}:{added.decode()}"
    assert dict(message.headers) == {"tenant": "north"}
    assert message.content_type == "x/y"


async def test_an_entry_without_a_body_is_all_its_fields_as_json(part, client, name):
    await client.xadd(name, {"order": "42", "raw": b"\xff"})
    intake = RecordingIntake()
    async with running(part(), intake):
        await intake.has(1)
    assert json.loads(intake.messages[0].body) == {"order": "42", "raw": "\ufffd"}
    assert intake.messages[0].content_type == "application/json"


async def test_the_body_may_be_in_another_field(part, client, name):
    await client.xadd(name, {"data": "hello", "body": "a header"})
    intake = RecordingIntake()
    async with running(part(body_field="data"), intake):
        await intake.has(1)
    assert intake.bodies == [b"hello"]
    assert dict(intake.messages[0].headers) == {"body": "a header"}


@pytest.mark.parametrize("protocol", [2, 3])
async def test_every_protocol_of_the_server_is_understood(part, client, valkey, name, protocol):
    await client.xadd(name, {"body": "x"})
    intake = RecordingIntake()
    async with running(part(url=f"{valkey.url}?protocol={protocol}"), intake):
        await intake.has(1)
        await settled(client, name)
        await client.xadd(name, {"body": "y"})
        await intake.has(2)
    assert intake.bodies == [b"x", b"y"]


async def test_a_new_group_begins_with_new_entries_by_default(part, client, name):
    await client.xadd(name, {"body": "old"})
    intake = RecordingIntake()
    async with running(part(start="new"), intake):

        async def has_joined():
            return bool(await client.xinfo_groups(name))

        await eventually(has_joined, "the group")
        await client.xadd(name, {"body": "new"})
        await intake.has(1)
    assert intake.bodies == [b"new"]


async def test_a_stream_that_is_not_there_yet_is_waited_for(part, client, name):
    intake = RecordingIntake()
    async with running(part(), intake):

        async def has_joined():
            return await client.exists(name)

        await eventually(has_joined, "the group")
        await client.xadd(name, {"body": "x"})
        await intake.has(1)


# --- several at a time


async def test_no_more_events_than_allowed_are_under_way(part, client, name):
    go_on = asyncio.Event()

    async def answer(_):
        await go_on.wait()
        return Ack()

    for number in range(10):
        await client.xadd(name, {"body": str(number)})
    intake = RecordingIntake(answer)
    async with running(part(concurrency=3), intake):
        await intake.has(3)
        go_on.set()
        await intake.has(10)
        await settled(client, name)
    assert intake.most_at_once == 3
    assert sorted(intake.bodies) == sorted(str(number).encode() for number in range(10))


async def test_two_receivers_of_a_group_share_its_entries(part, client, name):
    first, second = RecordingIntake(), RecordingIntake()
    async with running(part(concurrency=1), first), running(part(concurrency=1), second):
        for number in range(200):
            await client.xadd(name, {"body": str(number)})

        async def all_read():
            return len(first) + len(second) == 200

        await eventually(all_read, "all entries")
        await settled(client, name)
    assert sorted(first.bodies + second.bodies) == sorted(str(number).encode() for number in range(200))
    assert first.bodies
    assert second.bodies


async def test_two_groups_each_get_every_entry(part, client, name):
    first, second = RecordingIntake(), RecordingIntake()
    async with running(part(group="a"), first), running(part(group="b"), second):
        await client.xadd(name, {"body": "x"})
        await first.has(1)
        await second.has(1)


# --- what is not acknowledged


async def test_an_event_that_failed_is_replayed_and_then_set_aside(part, client, name):
    events = []
    added = await client.xadd(name, {"body": "bad", "tenant": "north"})
    intake = RecordingIntake(nack())
    async with running(part(delivery="linked", max_replays=2, min_idle=0.1), intake, events.append):

        async def is_dead():
            return await client.xlen(f"{name}.dead") == 1

        await eventually(is_dead, "a dead entry")
        await settled(client, name)
    assert len(intake) == 3
    assert len({message.id for message in intake.messages}) == 1
    [(_, fields)] = await client.xrange(f"{name}.dead")
    assert fields == {
        b"body": b"bad",
        b"tenant": b"north",
        b"dead-reason": b"shop: the shop is closed",
        b"dead-stream": name.encode(),
        b"dead-id": added,
        b"dead-deliveries": b"3",
    }
    [event] = dead(events)
    assert (event.event_id, event.place) == (intake.messages[0].id, f"{name}.dead")


async def test_without_replays_the_first_failure_is_the_last(part, client, name):
    await client.xadd(name, {"body": "bad"})
    intake = RecordingIntake(nack())
    async with running(part(delivery="linked", max_replays=0, dead_stream=f"{name}-bin"), intake):

        async def is_dead():
            return await client.xlen(f"{name}-bin") == 1

        await eventually(is_dead, "a dead entry")
    assert len(intake) == 1


async def test_a_replay_that_works_is_acknowledged(part, client, name):
    await client.xadd(name, {"body": "x"})
    intake = RecordingIntake(lambda _: nack() if len(intake) < 2 else Ack())
    async with running(part(delivery="linked", min_idle=0.1), intake):
        await intake.until(lambda seen: seen.accepted)
        await settled(client, name)
    assert not await client.exists(f"{name}.dead")


async def test_an_event_that_can_never_be_taken_is_set_aside_at_once(part, client, name):
    await client.xadd(name, {"body": "large"})
    await client.xadd(name, {"body": "x"})
    intake = RecordingIntake(lambda seen: MessageTooLarge("in", 9, 8) if seen.body == b"large" else Ack())
    async with running(part(), intake):
        await intake.has(2)
        await settled(client, name)
    [(_, fields)] = await client.xrange(f"{name}.dead")
    assert b"too large" in fields[b"dead-reason"]


async def test_an_intake_that_breaks_does_not_end_the_receiver(part, client, name):
    await client.xadd(name, {"body": "bad"})
    await client.xadd(name, {"body": "good"})
    intake = RecordingIntake(lambda seen: RuntimeError("oops") if seen.body == b"bad" else Ack())
    async with running(part(max_replays=1, min_idle=0.1), intake):

        async def is_dead():
            return await client.xlen(f"{name}.dead") == 1

        await eventually(is_dead, "a dead entry")
        await settled(client, name)
    # a machine that stands still for longer than min_idle may use the replay up without an event
    assert set(intake.bodies) == {b"bad", b"good"}
    assert 1 <= intake.bodies.count(b"bad") <= 2


async def test_what_cannot_be_set_aside_is_not_lost(part, client, name):
    await client.set(f"{name}.dead", "not a stream")
    await client.xadd(name, {"body": "bad"})
    intake = RecordingIntake(nack())
    async with running(part(delivery="linked", max_replays=0, min_idle=0.1), intake):
        await intake.has(3)  # it is tried again and again
        assert await pending(client, name) == 1
        await client.delete(f"{name}.dead")

        async def is_dead():
            return await client.xlen(f"{name}.dead") == 1

        await eventually(is_dead, "a dead entry")
        await settled(client, name)


async def test_an_event_that_takes_long_is_not_claimed_by_another_receiver(part, client, name):
    go_on = asyncio.Event()

    async def answer(_):
        await go_on.wait()
        return Ack()

    await client.xadd(name, {"body": "slow"})
    first, second = RecordingIntake(answer), RecordingIntake()
    slow = part(min_idle=2)
    async with running(slow, first):
        await first.has(1)
        async with running(slow, second):
            for _ in range(4):  # held so often, more time has passed than it may be idle
                await held_again(client, name)
            assert (await client.xpending_range(name, "redrive", "-", "+", 1))[0]["times_delivered"] == 1
            go_on.set()
            await settled(client, name)
    assert len(first) == 1
    assert not second.messages


async def held_again(client, stream):
    """Wait until an entry is less idle than it was."""
    idle = 0

    async def holds():
        nonlocal idle
        [found] = await client.xpending_range(stream, "redrive", "-", "+", 1)
        before, idle = idle, found["time_since_delivered"]
        return idle < before

    await eventually(holds, "an entry that is held")


async def test_an_event_that_is_under_way_is_not_begun_again_by_the_same_receiver(part, client, name):
    go_on = asyncio.Event()

    async def answer(message):
        if message.body == b"slow":
            await go_on.wait()
        return Ack()

    added = await client.xadd(name, {"body": "slow"})
    intake = RecordingIntake(answer)
    async with running(part(min_idle=1), intake):
        await intake.has(1)
        holder = (await client.xpending_range(name, "redrive", "-", "+", 1))[0]["consumer"]

        async def is_claimed():  # as if it were held too late
            await client.xclaim(name, "redrive", holder, 0, [added], idle=60_000, justid=True)
            return (await client.xpending_range(name, "redrive", "-", "+", 1))[0]["times_delivered"] >= 2

        await eventually(is_claimed, "an entry that was claimed")
        await client.xadd(name, {"body": "next"})
        await intake.has(2)
        go_on.set()
        await settled(client, name)
    assert intake.bodies == [b"slow", b"next"]


async def test_entries_that_were_deleted_meanwhile_are_forgotten(part, client, name):
    await client.xgroup_create(name, "redrive", "0", mkstream=True)
    added = await client.xadd(name, {"body": "x"})
    await client.xreadgroup("redrive", "another", {name: ">"})
    await client.xdel(name, added)
    intake = RecordingIntake()
    async with running(part(min_idle=0.05), intake):
        await settled(client, name)
    assert not intake.messages


# --- cancelled, and gone


async def test_a_receiver_that_is_cancelled_finishes_what_it_has_begun(part, client, name):
    go_on = asyncio.Event()

    async def answer(_):
        await go_on.wait()
        return Ack()

    await client.xadd(name, {"body": "x"})
    intake = RecordingIntake(answer)
    async with running(part(), intake) as task:
        await intake.has(1)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=0.05)
        assert not done
        go_on.set()
        await asyncio.wait({task})
        assert await pending(client, name) == 0
        assert (await client.xinfo_groups(name))[0]["consumers"] == 0


async def test_what_a_receiver_left_behind_is_delivered_to_another(part, client, name):
    never = asyncio.Event()
    await client.xadd(name, {"body": "x"})
    first, second = RecordingIntake(lambda _: never.wait()), RecordingIntake()
    async with running(part(), first) as task:
        await first.has(1)
        await give_up(task)
        assert await pending(client, name) == 1
    async with running(part(min_idle=0.1), second):
        await second.has(1)
        await settled(client, name)
    assert first.messages[0].id == second.messages[0].id


async def give_up(task):
    """Cancel a receiver, and then do not let it finish."""
    task.cancel()
    await asyncio.wait({task}, timeout=0.02)
    await stop(task)


async def test_what_is_not_acknowledged_because_of_its_end_stays_pending(part, client, name):
    await client.xadd(name, {"body": "x"})
    intake = RecordingIntake(EngineUnavailable("down"))
    async with running(part(), intake) as task:
        await intake.has(1)
        await stop(task)
    assert await pending(client, name) == 1


# --- trouble


async def test_nothing_more_is_read_while_the_intake_is_unavailable(part, client, name):
    is_down = True
    for number in range(10):
        await client.xadd(name, {"body": str(number)})
    intake = RecordingIntake(lambda _: EngineUnavailable("down") if is_down else Ack())
    async with running(part(concurrency=2, min_idle=0.2, max_replays=0), intake) as task:
        await intake.has(6)  # the same two, again and again
        assert set(intake.bodies) == {b"0", b"1"}
        assert not task.done()
        is_down = False
        await intake.until(lambda seen: len(seen.accepted) == 10)
        await settled(client, name)
    assert sorted(message.body for message in intake.accepted) == [str(number).encode() for number in range(10)]
    assert not await client.exists(f"{name}.dead")


async def test_a_server_that_is_killed_loses_nothing(part, client, valkey, name):
    events = []
    intake = RecordingIntake()
    confirmed = set()
    has_restarted = asyncio.Event()

    async def add():
        async with Redis.from_url(valkey.url) as adding:
            for number in range(400):
                try:
                    await adding.xadd(name, {"body": str(number)})
                except (RedisError, OSError):
                    await has_restarted.wait()
                else:
                    confirmed.add(str(number).encode())

    async with running(part(min_idle=1), intake, events.append):  # an answer that is lost leaves entries pending
        adding = asyncio.create_task(add())
        await intake.has(100)
        valkey.kill()

        async def is_noticed():
            return any(isinstance(event, SourceLost) for event in events)

        await eventually(is_noticed, "a receiver that misses its server")
        valkey.start()
        has_restarted.set()
        await adding
        assert len(confirmed) > 300
        await intake.until(lambda seen: confirmed <= {message.body for message in seen.accepted})
        await settled(client, name)
    assert any(isinstance(event, SourceBack) for event in events)


async def test_a_server_that_starts_later_is_waited_for(part, client, valkey, name):
    await client.xadd(name, {"body": "x"})
    valkey.kill()
    events, intake = [], RecordingIntake()
    async with running(part(), intake, events.append):

        async def is_noticed():
            return len(events) >= 2

        await eventually(is_noticed, "a receiver that misses its server")
        valkey.start()
        await intake.has(1)


async def test_a_group_that_is_lost_begins_where_it_was(part, client, name):
    intake = RecordingIntake()
    async with running(part(start="new"), intake):

        async def has_joined():
            return bool(await client.exists(name)) and bool(await client.xinfo_groups(name))

        await eventually(has_joined, "the group")
        await client.xadd(name, {"body": "first"})
        await intake.has(1)
        await settled(client, name)
        async with client.pipeline(transaction=True) as pipeline:
            pipeline.xgroup_destroy(name, "redrive")
            pipeline.xadd(name, {"body": "second"})
            await pipeline.execute()
        await intake.has(2)
    assert intake.bodies == [b"first", b"second"]


async def test_what_is_reported_has_no_password(part, client, valkey):
    await client.config_set("requirepass", "s3cret")
    try:
        events, intake = [], RecordingIntake()
        url = valkey.url.replace("redis://", "redis://:wr0ng@")
        async with running(part(url=url), intake, events.append):

            async def is_noticed():
                return bool(events)

            await eventually(is_noticed, "a receiver that is not let in")
    finally:
        await client.config_set("requirepass", "")
    assert not any("wr0ng" in str(event) for event in events)


# --- settings


def test_a_receiver_names_its_server_and_stream_and_hides_its_password():
    part = RedisStreamReceiver(url="rediss://user:s3cret@redis.example:7000/2?password=t0o", stream="orders")
    assert part.address == "redis.example:7000/2/orders"
    assert "s3cret" not in f"{part} {part!r}"
    assert "t0o" not in f"{part} {part!r}"
    assert "rediss://…@redis.example:7000/2?…" in str(part)
    assert RedisStreamReceiver.from_table(part.to_table()) == part


def test_a_port_and_a_database_have_defaults():
    assert RedisStreamReceiver(url="redis://host/0", stream="orders").address == "host:6379/orders"
    assert RedisStreamReceiver(url="unix:///run/redis.sock", stream="orders").address == "/run/redis.sock/orders"


def test_a_url_may_be_in_the_environment(monkeypatch):
    part = RedisStreamReceiver(url="env:ORDERS_REDIS", stream="orders")
    assert part.address == "env:ORDERS_REDIS/orders"
    with pytest.raises(InvalidSetting, match="ORDERS_REDIS is not set"):
        part.open(environment())
    monkeypatch.setenv("ORDERS_REDIS", "http://user:s3cret@host")
    with pytest.raises(InvalidSetting, match="ORDERS_REDIS") as refused:
        part.open(environment())
    assert "s3cret" not in str(refused.value)
    monkeypatch.setenv("ORDERS_REDIS", "redis://host")
    part.open(environment())


@pytest.mark.parametrize(
    "url", ["", "host:6379", "http://host", "redis://", "redis://a:b/c@host", "redis://a,redis://b", "env:", 7]
)
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(InvalidSetting, match="url"):
        RedisStreamReceiver(url=url, stream="orders")


def test_dead_entries_must_not_come_back():
    with pytest.raises(InvalidSetting, match="dead_stream"):
        RedisStreamReceiver(url="redis://host", stream="orders", dead_stream="orders")


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "redis.asyncio", None)
    with pytest.raises(MissingExtra, match=r"redrive\[redis\]"):
        RedisStreamReceiver(url="redis://host", stream="orders").open(environment())
