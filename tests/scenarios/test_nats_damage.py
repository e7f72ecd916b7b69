# SPDX-License-Identifier: MIT
"""A cluster of NATS that is paused, restarted server by server, and worked on by processes that die or freeze."""

import asyncio
import random
import signal
import subprocess
import sys
from collections import Counter

import pytest

from redrive.broker import Abandon, Broker, Complete, Message, QueueSettings, Send
from redrive.clock import pause, system_clock
from redrive.wiring import open_recovery
from tests.nats.hand_over import BILLS, ORDERS, PATIENCE_S, HandOver, names, new_engine, opened

IDLE = ".\n"
long = [pytest.mark.torture, pytest.mark.timeout(900)]


def test_a_program_leaves_a_server_that_is_paused(whole):
    """The server that a program is connected to does not answer, and its connection stands: others do its work."""
    namespace = next(names)

    async def run():
        async with opened(new_engine(whole, namespace, patience=40.0, attempt=0.5)) as engine:
            await engine.declare(ORDERS, QueueSettings())
            client = await engine._connection.client()
            used = next(each for each in whole.servers if client.connected_url.netloc in each.url)
            used.freeze()
            await engine.apply([Send(ORDERS, Message(b"", id="while it is paused"))])
            (found,) = await engine.lock_next(ORDERS, 1)
            await engine.apply([Complete(found.lock)])
            used.thaw()
            assert found.id == "while it is paused"

    asyncio.run(run())


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_a_hand_over_happens_once_while_leaders_are_paused(whole):
    namespace = next(names)
    scene, paused = HandOver(whole, namespace, 1_000), []

    def freeze():
        paused.append(whole.leader(namespace))
        paused[-1].freeze()

    def thaw():
        paused[-1].thaw()

    steps = [(20, freeze), (60, thaw), (120, freeze), (180, thaw)]
    left, bills = asyncio.run(scene.run(*steps))
    print(f"{len(scene.confirmed)} confirmed, {len(bills)} bills, {len(left)} left, {scene.refused}")
    scene.check(left, bills)


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_a_rolling_restart_loses_nothing_and_remembers_ids(whole):
    namespace = next(names)

    async def remembered():
        async with opened(new_engine(whole, namespace, patience=60.0)) as engine:
            await engine.declare("seen", QueueSettings(duplicate_detection=3_600))
            return await engine.apply([Send("seen", Message(b"", id="once"))])

    assert asyncio.run(remembered()) != [None]
    scene = HandOver(whole, namespace, 1_200)

    def restart(server):
        server.kill()
        server.start()
        whole.wait_until_whole(namespace)

    steps = [
        (at, lambda server=server: restart(server)) for at, server in zip((20, 100, 180), whole.servers, strict=True)
    ]
    left, bills = asyncio.run(scene.run(*steps))
    print(f"{len(scene.confirmed)} confirmed, {len(bills)} bills, {len(left)} left, {scene.refused}")
    scene.check(left, bills)
    assert asyncio.run(remembered()) == [None]


# --- processes


class Workers:
    """Processes that bill orders. Use it in a ``with`` block."""

    def __init__(self, cluster, namespace):
        self._command = [sys.executable, "-m", "tests.scenarios.nats_worker", namespace, *cluster.urls]
        self._all = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._all:
            process.kill()
            process.communicate()

    def start(self):
        """Start one."""
        process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        self._all.append(process)
        return process


def see_orders(process, count):
    """Wait until a process has received so many orders."""
    while count:
        count -= process.stdout.readline().startswith("o")


def prepare(cluster, namespace, orders, lock_s):
    """Send orders."""

    async def run():
        async with opened(new_engine(cluster, namespace)) as engine:
            for queue in (ORDERS, BILLS):
                await engine.declare(queue, QueueSettings(lock_duration=lock_s, max_delivery_count=1_000))
            for start in range(0, orders, 100):
                page = range(start, min(orders, start + 100))
                await engine.apply([Send(ORDERS, Message(b"", id=f"o{number}")) for number in page])

    asyncio.run(run())


def billed(cluster, namespace, orders):
    """Wait until there is a bill for every order; return the bills and what is left."""

    async def run():
        async with opened(new_engine(cluster, namespace, patience=60.0)) as engine:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    bills = Counter(one.id for one in await engine.peek(BILLS, 100_000))
                    left = [one.id for one in await engine.peek(ORDERS, 100_000)]
                    if len(bills) >= orders and not left:
                        return bills
                    await engine.wait(BILLS, 0.5)

    return asyncio.run(run())


@pytest.mark.parametrize("orders", [pytest.param(300, marks=long)])
def test_a_worker_that_is_killed_at_any_moment_leaves_one_bill_for_each_order(whole, orders):
    namespace, chance = next(names), random.Random(7)
    prepare(whole, namespace, orders, 2.0)
    with Workers(whole, namespace) as workers:
        for _ in range(25):
            victim = workers.start()
            see_orders(victim, chance.randrange(1, 6))
            system_clock.sleep(chance.random() * 0.01)
            victim.kill()
        workers.start()
        bills = billed(whole, namespace, orders)
    assert bills == Counter(f"o{number}" for number in range(orders))


@pytest.mark.parametrize("orders", [pytest.param(60, marks=long)])
def test_a_worker_that_is_frozen_past_its_lock_bills_nothing_twice(whole, orders):
    namespace, chance = next(names), random.Random(7)
    prepare(whole, namespace, orders, 1.0)
    with Workers(whole, namespace) as workers:
        frozen = []
        for _ in range(3):  # one after another: otherwise the last could find that all orders are billed
            frozen.append(workers.start())
            see_orders(frozen[-1], 3)
            system_clock.sleep(chance.random() * 0.01)
            frozen[-1].send_signal(signal.SIGSTOP)
        workers.start()
        billed(whole, namespace, orders)
        for victim in frozen:
            victim.send_signal(signal.SIGCONT)
            while victim.stdout.readline() != IDLE:
                pass  # it settles late now, or finds that it cannot
        bills = billed(whole, namespace, orders)
    assert bills == Counter(f"o{number}" for number in range(orders))


# --- much


@pytest.mark.parametrize("count", [pytest.param(5_000, marks=long)])
def test_many_delayed_messages_do_not_stop_a_queue(whole, count):
    namespace = next(names)

    async def run():
        async with opened(new_engine(whole, namespace)) as engine:
            await engine.declare(ORDERS, QueueSettings(lock_duration=300))
            for start in range(0, count, 100):
                await engine.apply([Send(ORDERS, Message(b"", id=f"{start + each}")) for each in range(100)])
            delayed = 0
            while found := await engine.lock_next(ORDERS, 100):
                await engine.apply([Abandon(one.lock, 3_600.0) for one in found])
                delayed += len(found)
            await engine.apply([Send(ORDERS, Message(b"", id="new"))])
            (found,) = await engine.lock_next(ORDERS, 10)
            (info,) = await engine.inspect(ORDERS)
            return delayed, found.id, info.scheduled

    assert asyncio.run(run()) == (count, "new", count)


@pytest.mark.parametrize("count", [pytest.param(10_000, marks=long)])
def test_a_bulk_recovery_adds_up_though_the_leader_dies(whole, tmp_path, count):
    namespace = next(names)

    async def run():
        async with opened(new_engine(whole, namespace, patience=60.0)) as engine:
            broker = Broker(engine)
            for queue in (ORDERS, "error"):
                await broker.declare(queue)
            for start in range(0, count, 100):
                await broker.send_many("error", [failed(start + each) for each in range(100)])
            async with open_recovery(broker, f"sqlite:///{tmp_path}/ledger.db") as recovery:
                while await recovery.count() < count:
                    await recovery.ingest()
                operation = await recovery.recover("queue:orders")
                await work(recovery, operation.number, 5)
                dead = await asyncio.to_thread(killed_leader, whole, namespace)
                await work(recovery, operation.number, 20)
                await asyncio.to_thread(dead.start)
                return await work(recovery, operation.number, 100_000), await everything(engine)

    async def work(recovery, number, steps):
        for _ in range(steps):
            operation = await recovery.operation(number)
            if not operation.progress.remaining and operation.progress.total == count:
                break
            step = await recovery.step()
            if not step:
                await pause(system_clock, min(0.2, step.next_in or 0.2))
        return await recovery.operation(number)

    async def everything(engine):
        return Counter(one.id for one in await engine.peek(ORDERS, 100_000))

    operation, sent = asyncio.run(run())
    print(operation.progress)
    assert operation.progress.forwarded == operation.progress.total == count
    assert sent == Counter(f"f{number}" for number in range(count))


def failed(number):
    """Return a message as a worker puts it into an error queue."""
    headers = {"redrive-failed-queue": ORDERS, "redrive-failed-exception-type": "shop.NoStock"}
    return Message(b"", id=f"f{number}", headers=headers)


def killed_leader(cluster, namespace):
    """Kill the stream's leader; return it."""
    leader = cluster.leader(namespace)
    leader.kill()
    return leader
