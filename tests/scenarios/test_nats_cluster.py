# SPDX-License-Identifier: MIT
"""Three real NATS servers: leaders are killed, paused and restarted while messages go through, and none is lost."""

import asyncio
import os
from contextlib import suppress

import pytest

from redrive.broker import Abandon, Complete, DeadLetter, Message, QueueSettings, Send
from redrive.clock import system_clock, utc
from redrive.engines.nats import NatsEngine
from redrive.errors import EngineUnavailable
from tests.nats.hand_over import BILLS, ORDERS, HandOver, names, new_engine, opened
from tests.nats.server import ask, remove_stream
from tests.postgres.server import wait_until


def killed_leader(cluster, namespace):
    """Kill the stream's leader; return it."""
    leader = cluster.leader(namespace)
    leader.kill()
    return leader


def test_a_hand_over_happens_once_while_the_leader_is_killed(whole):
    namespace = next(names)
    scene = HandOver(whole, namespace, 400)
    dead = []
    left, bills = asyncio.run(
        scene.run((20, lambda: dead.append(killed_leader(whole, namespace))), (60, lambda: dead.pop().start()))
    )
    scene.check(left, bills)


def test_what_was_confirmed_is_found_at_once_though_a_server_is_behind(whole):
    """The server that hands messages out, or that is read from, has missed the last ones: it must not be believed."""
    namespace = next(names)

    async def run():
        async with opened(new_engine(whole, namespace)) as first:
            await first.declare(ORDERS, QueueSettings())
            (queue,) = await first._catalog.all()
        other = await asyncio.to_thread(whole.consumer_apart, namespace, queue.key)
        urls = [server.url for server in whole.servers if server is not other]
        async with opened(NatsEngine(urls, namespace=namespace)) as engine:
            await send_and_find(engine, other)

    async def send_and_find(engine, other):
        for _ in range(3):
            other.freeze()
            await engine.apply([Send(ORDERS, Message(bytes(20_000), id="x")) for _ in range(100)])
            other.thaw()
            found = await engine.lock_next(ORDERS, 100)
            assert found, "it is received"
            assert len(await engine.peek(ORDERS, 200)) == 100, "it is seen"
            while found:
                await engine.apply([Complete(one.lock) for one in found])
                found = await engine.lock_next(ORDERS, 100)

    asyncio.run(run())


@pytest.mark.torture
@pytest.mark.timeout(0)
def test_hand_overs_happen_once_however_often_leaders_are_killed(whole):
    """The scene of the short test, a hundred times with two kills each: what is lost or doubled is named by its id."""
    for run in range(int(os.environ.get("REDRIVE_HAND_OVERS", "100"))):
        namespace = next(names)
        scene, dead = HandOver(whole, namespace, 1_000), []
        kill = [(at, lambda: dead.append(killed_leader(whole, namespace))) for at in (20, 140)]  # noqa: B023 - used now
        revive = [(at, lambda: dead.pop().start()) for at in (100, 220)]  # noqa: B023 - used now
        left, bills = asyncio.run(scene.run(*sorted([*kill, *revive], key=lambda step: step[0])))
        print(f"run {run}: {len(scene.confirmed)} confirmed, {len(bills)} bills, {len(left)} left, {scene.refused}")
        scene.check(left, bills)
        remove_stream(whole.leader(namespace).url, namespace)  # a hundred of them would keep the servers busy


@pytest.mark.torture
def test_everything_is_there_after_all_servers_were_killed(whole):
    namespace = next(names)

    async def before():
        engine = new_engine(whole, namespace)
        await engine.open()
        await engine.declare(ORDERS, QueueSettings(lock_duration=60, duplicate_detection=600))
        await engine.declare(BILLS, QueueSettings())
        settled = ["completed", "completed with others", "handed over"]
        await engine.apply([Send(ORDERS, Message(b"", id=name)) for name in [*settled, "and it"]])
        alone, together, handed_over, other = await engine.lock_next(ORDERS, 4)
        await engine.apply([Complete(alone.lock)])
        await engine.apply([Complete(together.lock), Complete(other.lock)])
        await engine.apply([Complete(handed_over.lock), Send(BILLS, Message(b"", id="bill"))])
        await engine.apply([Send(ORDERS, Message(b"", id=name)) for name in ("ready", "locked", "dead", "delayed")])
        _, _, dead, delayed = await engine.lock_next(ORDERS, 4)
        await engine.apply([DeadLetter(dead.lock, "broken")])
        await engine.apply([Abandon(delayed.lock, 3_600.0)])
        await engine.apply([Send(ORDERS, Message(b"", id="later"), utc(system_clock.time() + 3_600))])
        await engine.close()

    async def after():
        engine = new_engine(whole, namespace, patience=60.0)
        await engine.open()
        assert {one.id for one in await engine.peek(ORDERS, 10)} == {"ready", "locked", "delayed", "later"}
        assert [one.id for one in await engine.peek(BILLS, 10)] == ["bill"]
        assert [one.id for one in await engine.peek(f"{ORDERS}/$dead", 10)] == ["dead"]
        assert await engine.apply([Send(ORDERS, Message(b"", id="dead"))]) == [None], "ids are remembered"
        info = (await engine.inspect(ORDERS))[0]
        assert (info.scheduled, info.dead, info.ready + info.locked) == (2, 1, 2)
        await engine.close()

    asyncio.run(before())
    # What is left of settled messages has gone by itself then: nothing but the log says that they were settled.
    wait_until(lambda: messages_of(whole, namespace) == 6, "what is left of the others goes", whole.servers[0].log)
    for server in whole.servers:
        server.kill()
    for server in whole.servers:
        server.start()
    asyncio.run(after())


def messages_of(cluster, namespace):
    """Return how many messages are stored, with what is left of those that were settled."""
    answer = ask(cluster.leader(namespace).url, f"STREAM.INFO.{namespace}", {"subjects_filter": f"{namespace}.>"})
    return sum(subject.split(".")[1] in set("qsdx") for subject in answer["state"].get("subjects") or {})


@pytest.mark.torture
def test_no_call_hangs_while_the_leader_is_paused(whole):
    namespace = next(names)

    async def run():
        engine = new_engine(whole, namespace, patience=3.0, attempt=1.0)
        await engine.open()
        await engine.declare(ORDERS, QueueSettings())
        await engine.apply([Send(ORDERS, Message(b"", id="before"))])
        leader = await asyncio.to_thread(whole.leader, namespace)
        leader.freeze()
        began = system_clock.monotonic()
        for call in (
            engine.apply([Send(ORDERS, Message(b"", id="during"))]),
            engine.inspect(ORDERS),
            engine.lock_next(ORDERS, 1),
        ):
            with suppress(EngineUnavailable):
                await call
        took = system_clock.monotonic() - began
        leader.thaw()
        await engine.close()
        return took

    took = asyncio.run(run())
    assert took < 60, "each call ends when its patience does, give or take an attempt"
