# SPDX-License-Identifier: MIT
"""Orders that become bills on a cluster, while something happens to its servers."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from itertools import count

from redrive.broker import Complete, Message, QueueSettings, Send
from redrive.engines.nats import NatsEngine
from redrive.errors import EngineUnavailable, LockLost

ORDERS, BILLS = "orders", "bills"
PATIENCE_S = 120.0
names = (f"c{number}" for number in count(1))


def new_engine(cluster, namespace, **options):
    """Return an engine over the cluster, not yet open."""
    return NatsEngine(cluster.urls, namespace=namespace, replicas=3, **options)


@asynccontextmanager
async def opened(engine):
    """Open an engine, and close it in the end."""
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


class HandOver:
    """Orders are sent and become bills, by several workers, while something happens to the servers.

    Attributes:
        confirmed: the orders whose sending was confirmed.
        unknown: those of which nobody knows.
    """

    def __init__(self, cluster, namespace, orders):
        self.cluster = cluster
        self.namespace = namespace
        self.orders = orders
        self.confirmed = set()
        self.unknown = set()
        self.refused = Counter()
        self.is_sent = False

    async def run(self, *damage):
        """Send all orders and bill them, while the servers are damaged; return what is left and the bills."""
        engines = [new_engine(self.cluster, self.namespace, patience=30.0) for _ in range(2)]
        for engine in engines:
            await engine.open()
        for queue in (ORDERS, BILLS):
            await engines[0].declare(queue, QueueSettings(lock_duration=5, max_delivery_count=2_000))
        working = [asyncio.create_task(self.work(engine)) for engine in engines for _ in range(4)]
        sending = [asyncio.create_task(self.send(engines[0], part, damage)) for part in range(4)]
        try:
            await asyncio.wait_for(asyncio.gather(*sending, *working), PATIENCE_S)
        except TimeoutError:
            so_far = f"{len(self.confirmed)} confirmed, {len(self.unknown)} unknown, {self.refused}, {self.is_sent=}"
            raise AssertionError(f"not finished after {PATIENCE_S} s: {so_far}") from None
        result = await self.left(engines[0])
        for engine in engines:
            await engine.close()
        return result

    async def send(self, engine, part, damage):
        for number in range(part, self.orders, 4):
            name = f"o{number}"
            try:
                await engine.apply([Send(ORDERS, Message(b"order", id=name))])
                self.confirmed.add(name)
            except EngineUnavailable as error:
                self.refused[type(error)] += 1
                self.unknown.add(name)
            for at, do in damage if part == 0 else ():
                if number == at * 4:
                    await asyncio.to_thread(do)
        if part == 0:
            self.is_sent = True

    async def work(self, engine):
        """Bill orders until all were sent and none comes any more."""
        in_vain = 0
        while in_vain < 8:
            try:
                found = await engine.lock_next(ORDERS, 5)
                for one in found:
                    await engine.apply([Complete(one.lock), Send(BILLS, Message(b"bill", id=one.id))])
            except (EngineUnavailable, LockLost) as error:
                self.refused[type(error)] += 1
                continue
            in_vain = in_vain + 1 if self.is_sent and not found else 0
            if not found:
                await engine.wait(ORDERS, 1.0)

    async def left(self, engine):
        left = Counter(one.id for one in await engine.peek(ORDERS, 100_000))
        bills = Counter(one.id for one in await engine.peek(BILLS, 100_000))
        return left, bills

    def check(self, left, bills):
        """See that every order is there once: as itself or as its bill."""
        both = left + bills
        assert {name for name, times in both.items() if times > 1} == set(), "nothing is there twice"
        assert self.confirmed <= set(both), "nothing that was confirmed is lost"
        assert set(both) <= self.confirmed | self.unknown
        assert sum(bills.values()) > self.orders / 2, "most were billed"
