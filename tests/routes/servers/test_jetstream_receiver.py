# SPDX-License-Identifier: MIT
"""The JetStream receiver on a real server: what is acknowledged and what comes again, through every kind of trouble."""

import asyncio

import nats
import pytest
import pytest_asyncio
from nats.errors import Error
from nats.js.errors import NotFoundError

from redrive.errors import EngineUnavailable, InvalidSetting, MessageTooLarge, MissingExtra
from redrive.routes.ack_tree import Ack
from redrive.routes.receivers.jetstream import JetStreamReceiver
from redrive.routes.receivers.source_events import EventSetAside, SourceBack, SourceLost
from tests.patience import PATIENCE_S
from tests.routes.servers.intakes import RecordingIntake, environment, eventually, nack, running, stop


@pytest_asyncio.fixture
async def jetstream(nats_server, name):
    """A client of the tests' own, and a stream that no other test has."""
    client = await nats.connect(nats_server.url, reconnect_time_wait=0.1, max_reconnect_attempts=-1, error_cb=ignore)
    jetstream = client.jetstream(timeout=30)
    await jetstream.add_stream(name=name, subjects=[f"{name}.>"])
    yield jetstream
    await client.close()


async def ignore(_):
    """Say nothing about a server that a test has killed."""


@pytest.fixture
def part(nats_server, name):
    """Make a receiver of a stream that no other test has."""

    def make(**settings):
        known = {"url": nats_server.url, "stream": name, "start": "earliest"}
        return JetStreamReceiver(**known | settings)

    return make


async def consumer(jetstream, stream, durable="redrive"):
    """Return what the server knows of a consumer; it is asked again if it was restarted meanwhile."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await jetstream.consumer_info(stream, durable)
            except NotFoundError:
                return None
            except nats.errors.TimeoutError:
                continue


async def settled(jetstream, stream, durable="redrive"):
    """Wait until every message was delivered and answered."""

    async def holds():
        found = await consumer(jetstream, stream, durable)
        return found is not None and found.num_pending == 0 and found.num_ack_pending == 0

    await eventually(holds, "a consumer that is done")


async def dead_message(jetstream, subject):
    """Wait for a dead message with a subject."""
    found = []

    async def holds():
        try:
            stream = await jetstream.find_stream_name_by_subject(subject)
            found.append(await jetstream.get_last_msg(stream, subject))
        except NotFoundError:
            return False
        return True

    await eventually(holds, "a dead message")
    return found[0]


# --- what a message becomes


async def test_a_message_becomes_an_event_and_is_acknowledged(part, jetstream, name):
    headers = {"Nats-Msg-Id": "order-42", "tenant": "nörd", "Content-Type": "x/y", "Status": "200"}
    await jetstream.publish(f"{name}.new", b"\x00\xff", headers=headers)
    intake = RecordingIntake()
    async with running(part(), intake):
        await intake.has(1)
        await settled(jetstream, name)
    message = intake.messages[0]
    assert message.body == b"\x00\xff"
    assert message.id == "order-42"
    assert dict(message.headers) == {"tenant": "nörd", "Status": "200"}
    assert message.content_type == "x/y"
    assert message.subject == f"{name}.new"


@pytest.mark.parametrize("given", [None, "x" * 2_000])
async def test_a_message_without_a_good_id_is_named_by_its_sequence(part, jetstream, name, given):
    await jetstream.publish(f"{name}.new", b"", headers={"Nats-Msg-Id": given} if given else None)
    intake = RecordingIntake()
    async with running(part(), intake):
        await intake.has(1)
    assert intake.messages[0].id == f"nats:{name}:1"
    assert intake.bodies == [b""]


async def test_a_new_consumer_begins_with_new_messages_by_default(part, jetstream, name):
    await jetstream.publish(f"{name}.new", b"old")
    intake = RecordingIntake()
    async with running(part(start="new"), intake):

        async def is_there():
            return await consumer(jetstream, name)

        await eventually(is_there, "the consumer")
        await jetstream.publish(f"{name}.new", b"new")
        await intake.has(1)
    assert intake.bodies == [b"new"]


async def test_only_the_subject_is_read(part, jetstream, name):
    await jetstream.publish(f"{name}.old.a", b"other")
    await jetstream.publish(f"{name}.new.a", b"wanted")
    intake = RecordingIntake()
    async with running(part(subject=f"{name}.new.*"), intake):
        await intake.has(1)
        await settled(jetstream, name)
    assert intake.bodies == [b"wanted"]


async def test_a_stream_that_is_not_there_yet_is_waited_for(part, jetstream, name):
    events, intake = [], RecordingIntake()
    async with running(part(stream=f"{name}-later"), intake, events.append):

        async def is_noticed():
            return any("there is no stream" in str(event) for event in events)

        await eventually(is_noticed, "a receiver that misses its stream")
        await jetstream.add_stream(name=f"{name}-later", subjects=[f"{name}-later.>"])
        await jetstream.publish(f"{name}-later.x", b"x")
        await intake.has(1)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"filter_subject": "{}.other", "ack_policy": "explicit"}, "choose another durable"),
        ({"ack_policy": "none"}, "explicit acknowledgement"),
        ({"deliver_subject": "push", "ack_policy": "explicit"}, "must be a pull consumer"),
    ],
)
async def test_a_consumer_that_does_not_fit_is_refused_with_the_fix(part, jetstream, name, settings, problem):
    settings = {key: value.format(name) for key, value in settings.items()}
    await jetstream.add_consumer(name, durable_name="redrive", **settings)
    events, intake = [], RecordingIntake()
    async with running(part(), intake, events.append):

        async def is_noticed():
            return any(problem in str(event) for event in events)

        await eventually(is_noticed, "a receiver that refuses its consumer")


@pytest.mark.usefixtures("jetstream")
async def test_a_receiver_refuses_to_read_its_own_dead_messages(part, name):
    events, intake = [], RecordingIntake()
    async with running(part(dead_subject=f"{name}.dead"), intake, events.append):

        async def is_noticed():
            return any("its own dead messages" in str(event) for event in events)

        await eventually(is_noticed, "a receiver that refuses its dead subject")


# --- several at a time


async def test_no_more_events_than_allowed_are_under_way(part, jetstream, name):
    go_on = asyncio.Event()

    async def answer(_):
        await go_on.wait()
        return Ack()

    for number in range(10):
        await jetstream.publish(f"{name}.new", str(number).encode())
    intake = RecordingIntake(answer)
    async with running(part(concurrency=3), intake):
        await intake.has(3)
        go_on.set()
        await intake.has(10)
        await settled(jetstream, name)
    assert intake.most_at_once == 3
    assert sorted(intake.bodies) == [str(number).encode() for number in range(10)]


async def test_two_receivers_of_a_consumer_share_its_messages(part, jetstream, name):
    first, second = RecordingIntake(), RecordingIntake()
    async with running(part(concurrency=1), first), running(part(concurrency=1), second):
        for number in range(200):
            await jetstream.publish(f"{name}.new", str(number).encode())

        async def all_read():
            return len(first) + len(second) == 200

        await eventually(all_read, "all messages")
        await settled(jetstream, name)
    assert sorted(first.bodies + second.bodies) == sorted(str(number).encode() for number in range(200))
    assert first.bodies
    assert second.bodies


# --- what is not acknowledged


async def test_an_event_that_failed_is_replayed_and_then_set_aside(part, jetstream, name):
    events = []
    await jetstream.publish(f"{name}.new", b"bad", headers={"tenant": "north", "Nats-Msg-Id": "order-42"})
    intake = RecordingIntake(nack())
    async with running(part(delivery="linked", max_replays=2, replay_delay=0.05), intake, events.append):
        found = await dead_message(jetstream, f"dead.{name}.redrive")
        await settled(jetstream, name)
    assert len(intake) == 3
    assert {message.id for message in intake.messages} == {"order-42"}
    assert found.data == b"bad"
    assert found.headers == {
        "Nats-Msg-Id": f"dead:{name}:redrive:1",
        "tenant": "north",
        "dead-reason": "shop: the shop is closed",
        "dead-stream": name,
        "dead-subject": f"{name}.new",
        "dead-sequence": "1",
        "dead-deliveries": "3",
    }
    [event] = [event for event in events if isinstance(event, EventSetAside)]
    assert (event.event_id, event.place) == ("order-42", f"dead.{name}.redrive")


async def test_a_dead_message_goes_to_the_stream_that_takes_it(part, jetstream, name):
    await jetstream.add_stream(name=f"{name}-bin", subjects=[f"bin.{name}"])
    await jetstream.publish(f"{name}.new", b"bad")
    intake = RecordingIntake(nack())
    async with running(part(delivery="linked", max_replays=0, dead_subject=f"bin.{name}"), intake):
        await dead_message(jetstream, f"bin.{name}")
    assert (await jetstream.stream_info(f"{name}-bin")).state.messages == 1
    assert len(intake) == 1


async def test_a_replay_that_works_is_acknowledged(part, jetstream, name):
    await jetstream.publish(f"{name}.new", b"x")
    intake = RecordingIntake(lambda _: nack() if len(intake) < 2 else Ack())
    async with running(part(delivery="linked", replay_delay=0.05), intake):
        await intake.until(lambda seen: seen.accepted)
        await settled(jetstream, name)
    assert len(intake) == 2


async def test_an_event_that_can_never_be_taken_is_set_aside_at_once(part, jetstream, name):
    await jetstream.publish(f"{name}.new", b"large")
    await jetstream.publish(f"{name}.new", b"x")
    intake = RecordingIntake(lambda seen: MessageTooLarge("in", 9, 8) if seen.body == b"large" else Ack())
    async with running(part(), intake):
        await intake.has(2)
        found = await dead_message(jetstream, f"dead.{name}.redrive")
        await settled(jetstream, name)
    assert "too large" in found.headers["dead-reason"]


async def test_what_cannot_be_set_aside_is_not_lost(part, jetstream, name):
    await jetstream.add_stream(name=f"{name}-bin", subjects=[f"bin.{name}"], max_msg_size=1)
    await jetstream.publish(f"{name}.new", b"bad")
    events, intake = [], RecordingIntake(nack())
    settings = {"delivery": "linked", "max_replays": 0, "replay_delay": 0.05, "dead_subject": f"bin.{name}"}
    async with running(part(**settings), intake, events.append):
        await intake.has(3)  # it is tried again and again
        assert (await consumer(jetstream, name)).num_ack_pending == 1
        await jetstream.update_stream(name=f"{name}-bin", subjects=[f"bin.{name}"], max_msg_size=-1)
        await settled(jetstream, name)
    assert (await jetstream.stream_info(f"{name}-bin")).state.messages == 1
    assert any("maximum allowed" in str(event) for event in events)


async def test_an_event_that_takes_long_is_not_delivered_again(part, jetstream, name):
    go_on = asyncio.Event()

    async def answer(message):
        if message.body == b"slow":
            await go_on.wait()
            return Ack()
        return nack()

    await jetstream.publish(f"{name}.new", b"slow")
    first, second = RecordingIntake(answer), RecordingIntake(answer)
    settings = {"delivery": "linked", "ack_wait": 1.5, "replay_delay": 1, "max_replays": 1_000}
    async with running(part(**settings, concurrency=1), first):
        await first.has(1)
        async with running(part(**settings), second):  # the first has no room: what comes again comes here
            await jetstream.publish(f"{name}.new", b"beat")
            await second.has(4)  # 3 s: twice ack_wait
            go_on.set()
            await first.until(lambda seen: seen.accepted)

            async def is_done():
                return (await consumer(jetstream, name)).ack_floor.stream_seq == 1

            await eventually(is_done, "an acknowledged message")
    assert b"slow" not in second.bodies


# --- cancelled, and gone


async def test_a_receiver_that_is_cancelled_finishes_what_it_has_begun(part, jetstream, name):
    go_on = asyncio.Event()

    async def answer(_):
        await go_on.wait()
        return Ack()

    await jetstream.publish(f"{name}.new", b"x")
    intake = RecordingIntake(answer)
    async with running(part(), intake) as task:
        await intake.has(1)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=0.05)
        assert not done
        go_on.set()
        await asyncio.wait({task})
    found = await consumer(jetstream, name)
    assert (found.num_pending, found.num_ack_pending) == (0, 0)


async def test_what_a_receiver_left_behind_is_delivered_to_another(part, jetstream, name):
    never = asyncio.Event()
    await jetstream.publish(f"{name}.new", b"x")
    first, second = RecordingIntake(lambda _: never.wait()), RecordingIntake()
    async with running(part(ack_wait=0.5), first) as task:
        await first.has(1)
        task.cancel()
        await asyncio.wait({task}, timeout=0.02)
        await stop(task)  # cancelled twice, it does not finish
    async with running(part(), second):
        await second.has(1)
        await settled(jetstream, name)
    assert first.messages[0].id == second.messages[0].id


async def test_what_was_kept_while_the_intake_was_unavailable_goes_to_another_at_once(part, jetstream, name):
    await jetstream.publish(f"{name}.new", b"x")
    first, second = RecordingIntake(EngineUnavailable("down")), RecordingIntake()
    async with running(part(ack_wait=3_600), first) as task:
        await first.has(1)
        await stop(task)
    async with running(part(), second):
        await second.has(1)


# --- trouble


async def test_nothing_more_is_read_while_the_intake_is_unavailable(part, jetstream, name):
    is_down = True
    for number in range(10):
        await jetstream.publish(f"{name}.new", str(number).encode())
    intake = RecordingIntake(lambda _: EngineUnavailable("down") if is_down else Ack())
    async with running(part(concurrency=2, max_replays=0), intake) as task:
        await intake.has(6)  # the same two, again and again
        assert set(intake.bodies) == {b"0", b"1"}
        assert not task.done()
        is_down = False
        await intake.until(lambda seen: len(seen.accepted) == 10)
        await settled(jetstream, name)
    assert (await consumer(jetstream, name)).num_redelivered == 0


async def test_a_server_that_is_killed_loses_nothing(part, jetstream, nats_server, name):
    events, intake = [], RecordingIntake()
    confirmed = set()

    async def publish():
        for number in range(400):
            try:
                await jetstream.publish(f"{name}.new", str(number).encode(), timeout=2)
            except (Error, OSError):
                await has_restarted.wait()
            else:
                confirmed.add(str(number).encode())

    has_restarted = asyncio.Event()
    async with running(part(ack_wait=1), intake, events.append):
        publishing = asyncio.create_task(publish())
        await intake.has(100)
        nats_server.kill()

        async def is_noticed():
            return any(isinstance(event, SourceLost) for event in events)

        await eventually(is_noticed, "a receiver that misses its server")
        nats_server.start()
        has_restarted.set()
        await publishing
        assert len(confirmed) > 300
        await intake.until(lambda seen: confirmed <= {message.body for message in seen.accepted})
        await settled(jetstream, name)
    assert any(isinstance(event, SourceBack) for event in events)


async def test_an_event_that_is_answered_while_the_server_is_away_is_acknowledged_later(
    part, jetstream, nats_server, name
):
    go_on = asyncio.Event()

    async def answer(_):
        await go_on.wait()
        return Ack()

    events, intake = [], RecordingIntake(answer)
    await jetstream.publish(f"{name}.new", b"x")
    async with running(part(), intake, events.append):
        await intake.has(1)
        nats_server.kill()
        go_on.set()
        await intake.until(lambda seen: seen.accepted)

        async def is_noticed():
            return any(isinstance(event, SourceLost) for event in events)

        await eventually(is_noticed, "a receiver that misses its server")
        nats_server.start()
        await settled(jetstream, name)
    assert len(intake) == 1


async def test_a_consumer_that_was_deleted_is_made_again(part, jetstream, name):
    intake = RecordingIntake()
    async with running(part(), intake):
        await jetstream.publish(f"{name}.new", b"first")
        await intake.has(1)
        await settled(jetstream, name)
        await jetstream.delete_consumer(name, "redrive")
        await jetstream.publish(f"{name}.new", b"second")
        await intake.until(lambda seen: b"second" in seen.bodies)


# --- settings


def test_a_receiver_names_its_server_and_stream_and_hides_its_secrets():
    part = JetStreamReceiver(url="tls://t0ken@a.example,nats://user:s3cret@b.example:5000", stream="ORDERS")
    assert part.address == "a.example:4222/ORDERS"
    assert "s3cret" not in f"{part} {part!r}"
    assert "t0ken" not in f"{part} {part!r}"
    assert "tls://…@a.example,nats://…@b.example:5000" in str(part)
    assert JetStreamReceiver.from_table(part.to_table()) == part


def test_a_receiver_of_some_subjects_names_them():
    part = JetStreamReceiver(url="env:NATS", stream="ORDERS", subject="orders.*.new")
    assert part.address == "env:NATS/ORDERS/orders.*.new"


@pytest.mark.parametrize(
    "settings",
    [
        {"stream": "a.b"},
        {"durable": "a b"},
        {"subject": "a..b"},
        {"subject": "a.>.b"},
        {"subject": "orders.>", "dead_subject": "orders.dead"},
        {"subject": "*.dead", "dead_subject": "orders.dead"},
        {"dead_subject": "orders.*"},
        {"url": "redis://host"},
        {"url": "nats://a,http://b"},
    ],
)
def test_what_cannot_be_is_refused(settings):
    (wrong,) = {*settings} - {"subject"} if len(settings) > 1 else settings
    with pytest.raises(InvalidSetting, match=wrong):
        JetStreamReceiver(**{"url": "nats://host", "stream": "ORDERS"} | settings)


def test_a_subject_beside_what_is_read_is_good():
    JetStreamReceiver(url="nats://host", stream="ORDERS", subject="orders.new.>", dead_subject="orders.dead")
    JetStreamReceiver(url="nats://host", stream="ORDERS", subject="orders.*", dead_subject="orders.a.dead")


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "nats.js", None)
    with pytest.raises(MissingExtra, match=r"redrive\[nats\]"):
        JetStreamReceiver(url="nats://host", stream="ORDERS").open(environment())
