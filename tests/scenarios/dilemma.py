# SPDX-License-Identifier: MIT
"""The dilemma of one receiver for many routes: one of them fails, and what do the others see of it?

Five routes read one queue. The third fails for every fifth attempt, and later its destination is down for an hour. All
time is simulated. ``python -m tests.scenarios.dilemma`` prints the table in docs/explanation/one-event-many-routes.md.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from redrive import connect, open_routes
from redrive.broker import Broker, Message
from redrive.routes import (
    Delivered,
    DestinationDown,
    EventSender,
    Route,
    RouteRunner,
    TryLater,
    add_kind,
    from_queue,
    route,
    setting,
)
from redrive.routes.parts import TextSetting
from tests.clocks import SharedClock

ROUTES = ("one", "two", "failing", "four", "five")
FAILING = "failing"
SOURCE = "orders"
STEP_S = 10.0
PATIENT = 20
"""How often the same is seen before it is taken for a pause: a worker that slows down leaves messages in its queue."""

VERY_PATIENT = 3_000
"""How often, while a message is locked: its holder works, or waits for time to pass before it tries its store again."""


@dataclass(frozen=True)
class Dilemma:
    """What happened.

    Attributes:
        events: how many events there were.
        duplicates: deliveries at healthy destinations beyond the first of each event.
        missing: events that a healthy destination never got, added up over the four.
        missing_at_failing: events that the failing destination never got.
        dead_in_outage: dead letters while the destination was down.
    """

    events: int
    duplicates: int
    missing: int
    missing_at_failing: int
    dead_in_outage: int


class World:
    """What the senders of the scenario know and note; routes are opened by their runner, so it is one for all."""

    def __init__(self) -> None:
        self.is_down = False
        self.attempts: Counter[str] = Counter()
        self.delivered: dict[str, Counter[str]] = {name: Counter() for name in ROUTES}

    def outcome(self, name: str, event: str) -> Delivered | TryLater | DestinationDown:
        if name == FAILING:
            self.attempts[event] += 1
            if self.is_down:
                return DestinationDown("connection refused")
            if sha256(f"{event} {self.attempts[event]}".encode()).digest()[0] < 51:  # a fifth
                return TryLater("status 500")
        self.delivered[name][event] += 1
        return Delivered()


WORLD = World()


@add_kind
@dataclass(frozen=True, slots=True)
class DilemmaSender(EventSender):
    """Delivers to the world: the first two routes before the failing one, the last two after it."""

    kind: ClassVar[str] = "dilemma"
    name: str = setting(TextSetting(), "which route")

    @property
    def destination(self) -> str:
        return self.name

    def open(self, environment: object) -> "DilemmaSender":
        return self

    async def send(self, message: Message, key: str) -> Delivered | TryLater | DestinationDown:
        for _ in range(ROUTES.index(self.name) + 1):
            await asyncio.sleep(0)
        return WORLD.outcome(self.name, message.id or "")

    async def close(self) -> None:
        pass


def routes_for(delivery: str, on_nack: str) -> list[Route]:
    """Return the five routes. Linked ones are nacked and not retried by their senders, as in the source document."""
    source = from_queue(SOURCE, delivery=delivery, on_nack=on_nack)
    settings = {} if delivery == "durable" else {"on_exhausted": "nack", "quiet_retries": 0}
    return [route(name, source=source, **settings) >> DilemmaSender(name) for name in ROUTES]


async def play(delivery: str, on_nack: str, *, before: int = 300, outage_s: float = 3_600.0, folder: Path) -> Dilemma:
    """Play the scenario once; return what happened."""
    WORLD.__init__()  # type: ignore[misc]
    clock = SharedClock()
    async with connect(f"sqlite:///{folder}/dilemma.db?synchronous=normal", clock=clock) as broker:
        await broker.declare(SOURCE)
        async with open_routes(broker) as routes:
            await routes.apply(*routes_for(delivery, on_nack))
            runner = RouteRunner(routes, listen="127.0.0.1:0", chance=lambda: 0.5)
            running = asyncio.create_task(runner.run())
            try:
                return await _play(broker, clock, before, outage_s)
            finally:
                runner.stop()
                await running


async def _play(broker: Broker, clock: SharedClock, before: int, outage_s: float) -> Dilemma:
    sent: list[str] = []

    async def step(*, with_event: bool) -> None:
        if with_event:
            sent.append(f"e{len(sent)}")
            await broker.send(SOURCE, Message(b"{}", id=sent[-1]))
        clock.advance(STEP_S)
        await quiet(broker)

    for _ in range(before):
        await step(with_event=True)
    dead_before = await dead_letters(broker)
    WORLD.is_down = True
    for _ in range(int(outage_s / STEP_S)):
        await step(with_event=True)
    dead_in_outage = await dead_letters(broker) - dead_before
    WORLD.is_down = False
    while any(queue.ready + queue.scheduled + queue.locked for queue in await broker.queues()):
        await step(with_event=False)
    healthy = [WORLD.delivered[name] for name in ROUTES if name != FAILING]
    return Dilemma(
        events=len(sent),
        duplicates=sum(count - 1 for found in healthy for count in found.values()),
        missing=sum(len(sent) - len(found) for found in healthy),
        missing_at_failing=len(sent) - len(WORLD.delivered[FAILING]),
        dead_in_outage=dead_in_outage,
    )


async def dead_letters(broker: Broker) -> int:
    """Return how many dead letters there are in all queues."""
    return sum(queue.dead for queue in await broker.queues())


async def quiet(broker: Broker) -> None:
    """Wait until nothing is left to do now, except what waits for time to pass: a pause between two attempts."""
    unchanged, before = 0, None
    patience = PATIENT
    while unchanged < patience:
        healthy = [queue for queue in await broker.queues() if not queue.name.endswith(f"/{FAILING}")]
        counts = [(queue.ready, queue.locked) for queue in healthy]
        if not any(ready or locked for ready, locked in counts):
            return
        patience = VERY_PATIENT if any(locked for _, locked in counts) else PATIENT
        unchanged, before = unchanged + 1 if counts == before else 0, counts


WAYS = (("durable", "wait_all"), ("linked", "wait_all"), ("linked", "fail_fast"))


def row(delivery: str, on_nack: str, found: Dilemma) -> str:
    """Return the row of the table for one way of delivery."""
    name = f"`{delivery}`" if delivery == "durable" else f"`{delivery}`, `{on_nack}`"
    return f"| {name} | {found.events} | {found.duplicates:,} | {found.missing:,} | {found.dead_in_outage:,} |"


def main() -> None:
    """Print the table."""
    print("| delivery | events | duplicates at healthy destinations | never arrived there | dead in the outage |")
    print("| --- | --- | --- | --- | --- |")
    for delivery, on_nack in WAYS:
        with TemporaryDirectory() as folder:
            print(row(delivery, on_nack, asyncio.run(play(delivery, on_nack, folder=Path(folder)))))


if __name__ == "__main__":
    main()
