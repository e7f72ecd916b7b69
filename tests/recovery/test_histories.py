# SPDX-License-Identifier: MIT
"""Whatever happens to messages, in whatever order it is heard of: nothing that failed is hidden.

A history is a list of steps: messages are sent (few ids, few bodies, so that they meet), handled, fail, are passed on
with all their headers, fanned out; failures and confirmations are read, each at its own time, some of them twice;
people recover, redirect, edit, resolve, archive, restore, send again. Handlers and readers go by clocks of their own.
At the end everything is read. Then, for every single message that ever failed, one of these must be true of the record
with its queue, id and body: it is unresolved; a copy of it is in a queue; a copy of it was handled after the failure;
a person closed it after the failure was read.
"""

import random
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import count

import pytest

from redrive.broker import Abandon, Broker, Complete, Message, Send
from redrive.broker.headers import RECOVERY_TAG
from redrive.clock import utc
from redrive.engines.sql.recovery.ledger import SqlLedger
from redrive.engines.sqlite import SqliteEngine
from redrive.errors import OperationConflict
from redrive.recovery import LaneSettings, Recovery, ServiceSettings, Status, Transform
from redrive.testing import ManualClock
from redrive.worker.confirmation import confirmation_of

QUEUES = ("a", "b")
STEPS = dict(
    [
        *(("send", 8), ("handle", 6), ("fail", 14), ("pass_on", 3), ("pass_on_here", 3), ("fan_out", 2), ("die", 1)),
        *(("make_another", 3), ("read_failures", 8), ("read_confirmations", 6), ("read_twice", 2), ("recover", 10)),
        *(("recover_again", 2), ("redirect", 2), ("transform", 1), ("edit", 1)),
        *(("resolve", 1), ("archive", 1), ("restore", 1)),
    ]
)
"""What can happen next, and how likely it is."""


@dataclass
class Failed:
    """A message that has failed."""

    content: tuple
    at: int
    tag: str = ""
    read_at: int | None = None


@dataclass
class World:
    """The queues, the ledger, and what really happened."""

    broker: Broker
    recovery: Recovery
    clock: ManualClock
    ticks: count = field(default_factory=lambda: count(1))
    failed: list = field(default_factory=list)
    handled: dict = field(default_factory=lambda: defaultdict(list))
    closed: dict = field(default_factory=dict)
    log: list = field(default_factory=list)

    # --- what programs do

    async def send(self, n):
        await self.broker.send(QUEUES[n % 2], Message(b"%d" % (n // 4 % 2), id=f"m{n // 2 % 2}"))

    async def _take(self, n):
        found = await self.broker.engine.lock_next(QUEUES[n % 2], 1)
        return found[0] if found else None

    async def handle(self, n, *also, body=None):
        """Handle a message as a worker does; other messages may go with its completion."""
        if (one := await self._take(n)) is None:
            return
        words = confirmation_of(one.message, one.queue, utc(self.clock.time()))
        made = one.message if body is None else replace(one.message, body=body)
        await self.broker.apply(Complete(one.lock), *words, *(Send(to, made) for to in also))
        if tag := one.headers.get(RECOVERY_TAG):
            self.handled[tag].append(next(self.ticks))

    async def pass_on(self, n):
        await self.handle(n, QUEUES[1 - n % 2])

    async def pass_on_here(self, n):
        await self.handle(n, QUEUES[n % 2])

    async def fan_out(self, n):
        await self.handle(n, *QUEUES)

    async def make_another(self, n):
        """Send another message with the id and all headers of this one, to one of the queues."""
        await self.handle(n, QUEUES[n // 2 % 2], body=b"%d, another" % (n // 4 % 2))

    async def fail(self, n):
        """Fail as a worker does, by a clock that may be wrong."""
        if (one := await self._take(n)) is None:
            return
        told = {
            "redrive-failed-queue": one.queue,
            "redrive-failed-at": utc(self.clock.time() + (n % 3 - 1) * 86_400).isoformat(),
        }
        copy = replace(one.message, headers={**one.headers, **told})
        await self.broker.apply(Complete(one.lock), Send("error", copy))
        tag = str(one.headers.get(RECOVERY_TAG, ""))
        self.failed.append(Failed((one.queue, one.id, one.body), next(self.ticks), tag))

    async def die(self, n):
        """Receive a message, and die: it comes again."""
        await self._take(n)
        self.clock.advance(100)

    # --- what recovery and people do

    async def read_failures(self, _n):
        while await self.recovery._ingester.take("error", 500):
            pass
        self._note_read()

    def _note_read(self):
        now = next(self.ticks)
        for each in self.failed:
            each.read_at = each.read_at or now

    async def read_confirmations(self, _n):
        while await self.recovery._ingester.take_confirmations():
            pass

    async def read_twice(self, _n):
        """Read failures, and die before they are completed."""
        page = await self.broker.engine.lock_next("error", 100)
        if page:
            await self.recovery._ingester.record(page)
            self._note_read()
            await self.broker.engine.apply([Abandon(each.lock, uncount=True) for each in page])

    async def recover(self, _n, chosen="status:unresolved", **how):
        operation = await self.recovery.recover(chosen, **how)
        while await self.recovery._service.work():
            pass
        return operation

    async def recover_again(self, n):
        await self.recover(n, "status:retry-issued", again=True)

    async def redirect(self, n):
        await self.recover(n, redirect=QUEUES[n % 2])

    async def transform(self, n):
        await self.recover(n, transform=Transform(body=b"changed"))

    async def edit(self, n):
        if found := await self.recovery.failed():
            one = found[n % len(found)]
            await self.recovery.edit(one.id, Transform(body=b"edited"))
            while await self.recovery._service.work():
                pass

    async def _close(self, verb, n):
        found = await self.recovery.failed("status:any")
        if found:
            one = found[n % len(found)]
            await getattr(self.recovery, verb)([one.id])
            while await self.recovery._service.work():
                pass
            self.closed[one.id] = next(self.ticks)

    async def resolve(self, n):
        await self._close("resolve", n)

    async def archive(self, n):
        await self._close("archive", n)

    async def restore(self, _n):
        await self.recovery.restore("status:archived")
        while await self.recovery._service.work():
            pass


# --- what must hold


async def check(world):
    """Say that nothing that failed is hidden."""
    for read in (world.read_failures, world.read_confirmations, world.read_failures):
        await read(0)
    assert await world.recovery.check_counts() == []
    records = await world.recovery.failed("status:any", limit=1_000)
    details = {each.id: await world.recovery.show(each.id) for each in records}
    alive = {
        str(one.headers.get(RECOVERY_TAG)).split(".")[1]
        for queue in QUEUES
        for one in await world.broker.peek(queue, max_messages=1_000)
        if RECOVERY_TAG in one.headers
    }
    for failed in world.failed:
        ways = [why(world, failed, details[each.id], alive) for each in records]
        seen = [f"{each.number} {each.queue} {each.message_id} {each.status.word}" for each in records]
        assert any(ways), "\n".join([f"{failed} is hidden", *world.log, *seen])
    info = await world.broker.inspect("error")
    assert (info.ready, info.locked, info.dead) == (0, 0, 0)


def why(world, failed, detail, alive):
    """Say why a failure is not hidden, if it is this record that has it."""
    record, message = detail.summary, detail.message
    sent = {each.operation for each in detail.parts}
    is_its = (message.id, message.body) == failed.content[1:]
    is_copy = bool(sent) and failed.content[2] == b"changed"  # the record keeps the message as it was
    if not is_its and not is_copy:
        return []
    tags = [tag for tag in world.handled if tag.split(".")[1] == str(record.number)]
    reasons = {
        "unresolved": record.status is Status.UNRESOLVED,
        "on its way": str(record.number) in alive,
        "handled": any(at > failed.at for tag in tags for at in world.handled[tag]),
        "sent twice on purpose, and handled once": any(is_sibling(tag, failed.tag) for tag in tags),
        "closed by a person": world.closed.get(record.id, 0) > (failed.read_at or 0),
        "replaced by a person's edit": record.edited_as is not None and record.status is Status.ARCHIVED,
    }
    return [reason for reason, holds in reasons.items() if holds]


def is_sibling(tag, other):
    """Say whether two tags are those of two copies of one failed message, of two operations."""
    operation, number, *_ = tag.split(".")
    return other.split(".")[1:2] == [number] and other.split(".")[0] != operation


async def play(seed, length):
    """Play a history."""
    chance = random.Random(seed)
    steps = chance.choices(list(STEPS), STEPS.values(), k=length)
    clock = ManualClock()
    engine = SqliteEngine(":memory:", clock=clock)
    broker = Broker(engine, clock=clock)
    lanes = LaneSettings(lock_duration=1.0)
    recovery = Recovery(broker, SqlLedger(engine, is_shared=True), settings=ServiceSettings(lanes=lanes))
    await engine.open()
    try:
        for queue in ("error", *QUEUES):
            await broker.declare(queue, max_delivery_count=2_000)
        async with recovery:
            world = World(broker, recovery, clock)
            for step in steps:
                n = chance.randrange(12)
                try:
                    await getattr(world, step)(n)
                    world.log.append(f"{step} {n}")
                except OperationConflict as error:  # it is not free, or not in a state for that
                    world.log.append(f"{step} {n}: {error}")
            clock.advance(1_000)
            await check(world)
    finally:
        await engine.close()


@pytest.mark.parametrize(
    ("histories", "length"),
    [
        pytest.param(30, 60, id="some"),
        pytest.param(5_000, 120, id="many", marks=[pytest.mark.torture, pytest.mark.timeout(3_600)]),
    ],
)
async def test_nothing_that_failed_is_ever_hidden(histories, length):
    first = random.Random().randrange(2**32)
    for seed in range(first, first + histories):
        try:
            await play(seed, length)
        except AssertionError as error:
            raise AssertionError(f"history {seed} of length {length}: {error}") from error
