# SPDX-License-Identifier: MIT
"""A server that is killed brings nothing back that was settled before."""

import asyncio

from redrive.broker import Abandon, Cancel, Complete, DeadLetter, Message, QueueSettings, Send
from redrive.clock import system_clock, utc
from redrive.engines.nats import NatsEngine
from redrive.engines.nats.group_commit import GroupCommit
from tests.nats.hand_over import opened
from tests.nats.server import ask
from tests.postgres.server import wait_until

ORDERS, DEAD = "orders", "orders/$dead"


def test_what_was_settled_stays_settled_after_a_kill(engine_server, nats_namespace):
    """What a server removes by a limit it notes nowhere: it removes that again when it starts, if it still can."""

    def engine():
        return opened(NatsEngine([engine_server.url], namespace=nats_namespace, replicas=1, patience=30.0))

    async def use():
        async with engine() as used:
            await used.declare(ORDERS, QueueSettings(lock_duration=60))
            await settle_all_ways(used)
            await used.apply([Send(ORDERS, Message(b"", id="kept"))])

    async def look():
        async with engine() as used:
            assert [one.id for one in await used.peek(ORDERS, 100)] == ["kept"]
            assert await used.peek(DEAD, 100) == []
            assert [one.id for one in await used.lock_next(ORDERS, 100)] == ["kept"]

    asyncio.run(use())
    wait_until(lambda: left(engine_server, nats_namespace) == 1, "what is left of the others goes", engine_server.log)
    engine_server.kill()
    engine_server.start()
    asyncio.run(look())


def test_a_program_that_dies_before_it_removes_what_it_has_replaced_repeats_nothing(
    engine_server, nats_namespace, monkeypatch
):
    """The old versions are handed out again when their locks end, and no caller gets them."""

    def engine():
        return opened(NatsEngine([engine_server.url], namespace=nats_namespace, replicas=1))

    async def use():
        async with engine() as used:
            await used.declare(ORDERS, QueueSettings(lock_duration=1))
            await used.apply([Send(ORDERS, Message(b"", id=name)) for name in ("completed", "abandoned", "dead")])
            completed, abandoned, dead = await used.lock_next(ORDERS, 3)
            with monkeypatch.context() as patch:
                patch.setattr(GroupCommit, "_clean_after", lambda *_: None)
                effects = [Complete(completed.lock), Abandon(abandoned.lock), DeadLetter(dead.lock, "broken")]
                await used.apply([*effects, Send(ORDERS, Message(b"", id="new"))])

    async def go_on():
        received = []
        async with engine() as used:
            while await asyncio.to_thread(versions, engine_server, nats_namespace) > VERSIONS_LEFT:
                await used.wait(ORDERS, 0.1)
                found = await used.lock_next(ORDERS, 10)
                received += [one.id for one in found]
                await used.apply([Complete(one.lock) for one in found])
            assert [one.id for one in await used.peek(DEAD, 10)] == ["dead"]
            assert await used.peek(ORDERS, 10) == []
        return received

    asyncio.run(use())
    assert sorted(asyncio.run(go_on())) == ["abandoned", "new"]


VERSIONS_LEFT = 3
"""A dead letter, and what is left of the two messages that were settled by the program that died."""


def versions(server, namespace):
    """Return how many versions of messages are stored, with what is left of those that were settled."""
    answer = ask(server.url, f"STREAM.INFO.{namespace}", {"subjects_filter": f"{namespace}.>"})
    subjects = answer["state"].get("subjects") or {}
    return sum(count for subject, count in subjects.items() if subject.split(".")[1] in {"q", "s", "d", "x"})


async def settle_all_ways(engine):
    """Settle messages, in every way that takes them from where they were."""
    await engine.apply([Send(ORDERS, Message(b"", id=f"completed {number}")) for number in range(20)])
    await engine.apply([Complete(one.lock) for one in await engine.lock_next(ORDERS, 20)])
    await engine.apply([Send(ORDERS, Message(b"", id=name)) for name in ("abandoned", "dead")])
    abandoned, dead = await engine.lock_next(ORDERS, 2)
    await engine.apply([Abandon(abandoned.lock), DeadLetter(dead.lock, "broken")])
    await engine.apply([Abandon(one.lock, 0.1) for one in await engine.lock_next(ORDERS, 1)])
    await engine.apply([Complete(one.lock) for one in await engine.lock_next(DEAD, 1)])
    (number,) = await engine.apply([Send(ORDERS, Message(b"", id="cancelled"), utc(system_clock.time() + 3_600))])
    await engine.apply([Cancel(ORDERS, number)])
    await engine.apply([Send(ORDERS, Message(b"", id="due"), utc(system_clock.time() + 0.1))])
    completed = 0
    while completed < 2:  # what was abandoned, and what was due
        await engine.wait(ORDERS, 1.0)
        found = await engine.lock_next(ORDERS, 5)
        await engine.apply([Complete(one.lock) for one in found])
        completed += len(found)


def left(server, namespace):
    """Return how many messages are stored, with what is left of those that were settled."""
    answer = ask(server.url, f"STREAM.INFO.{namespace}", {"subjects_filter": f"{namespace}.>"})
    return sum(subject.split(".")[1] in {"q", "s", "d", "x"} for subject in answer["state"].get("subjects") or {})
