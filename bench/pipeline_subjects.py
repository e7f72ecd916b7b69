"""What bench/pipeline.py compares: a pipeline, the same hand-overs without a ledger, and a DBOS workflow."""

# ruff: noqa: PLC0415 - imports stand where they are used, so that a library that is not installed is missed alone

import asyncio
import logging
import secrets
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from typing import ClassVar

from redrive import connect, open_pipeline
from redrive.broker import Message
from redrive.pipeline import (
    Body,
    Every,
    Limits,
    Output,
    Pipeline,
    PipelineRunner,
    ShipmentSent,
    SlotServed,
    TaskEnded,
    TaskToken,
    Transport,
    add_transport,
)
from redrive.worker import Worker

BODY = bytes(1_200)
PER_SHIPMENT = 100
PROCESSING, SENDING = 8, 4
"""How many tasks of a stage are worked on at a time: the defaults of a pipeline."""

LOCK_S = 60.0


class Progress:
    """How many items have come how far; whoever waits is woken when something has changed."""

    def __init__(self):
        self.processed = self.sent = self.shipments = self.ended = self.slots = 0
        self._changed = asyncio.Event()

    def note(self, **more):
        """Add to the counts."""
        for name, number in more.items():
            setattr(self, name, getattr(self, name) + number)
        self._changed.set()

    async def until(self, is_there):
        """Wait until the counts are as wanted."""
        while not is_there():
            self._changed.clear()
            await self._changed.wait()


PROGRESS = None  # a transport is opened by the runner of its pipeline, so this is one for all


@add_transport
@dataclass(frozen=True, slots=True)
class NoTransport(Transport):
    """Sends nothing, and counts it."""

    kind: ClassVar[str] = "bench"

    @property
    def address(self):
        """Return where to."""
        return "nowhere"

    def open(self, environment):
        """Return itself: it has no connection."""
        return self

    async def send(self, shipment):
        """Count a shipment."""
        PROGRESS.note(sent=shipment.item_count, shipments=1)
        return ShipmentSent()

    async def close(self):
        """Do nothing."""


async def route(report):
    """Let everything go to one destination."""
    return [Output("there", report.items)]


async def merge(items):
    """Make one shipment of all items."""
    return Body(b"".join(item.body for item in items))


async def submitted(submit, items, submitters):
    """Submit a number of items, by so many submitters at once."""
    numbers = iter(range(items))

    async def one():
        for _ in numbers:
            await submit()

    await asyncio.gather(*(one() for _ in range(submitters)))


class Staged:
    """A pipeline of four stages: each item is received and processed, waits for a slot, and is sent with others."""

    name = "redrive, a pipeline"
    can_send_at_once = True

    def __init__(self, *, is_batched=True):
        self.is_batched = is_batched

    async def open(self, url):
        """Open the broker and the pipeline, and run it."""
        global PROGRESS  # noqa: PLW0603 - see above
        PROGRESS = self.progress = Progress()
        self.broker = connect(url, upkeep_every=3_600)
        await self.broker.open()
        pipe = Pipeline("bench")
        pipe.process(route)
        slots = {"timing": Every(86_400), "limits": Limits(max_items=1), "merge": merge, "max_tasks": PER_SHIPMENT}
        pipe.destination("there", NoTransport(), **(slots if self.is_batched else {}))
        self.pipeline = open_pipeline(self.broker, pipe)
        await self.pipeline.__aenter__()
        run = secrets.token_hex(8)  # the tables may have keys already
        self.keys = (f"{run} {number}" for number in count(1))
        self.runner = PipelineRunner(self.pipeline, on_event=self._note)
        self.running = asyncio.create_task(self.runner.run())

    def _note(self, event):
        if isinstance(event, TaskEnded):
            is_processed = event.stage == "process"
            self.progress.note(processed=is_processed, ended=not is_processed)
        elif isinstance(event, SlotServed):
            self.progress.note(slots=1)

    async def close(self):
        """Stop the pipeline, and close the broker."""
        while not self.running.done():  # one that has not begun yet would not hear it
            self.runner.stop()
            await asyncio.wait([self.running], timeout=0.1)
        await self.pipeline.__aexit__()
        await self.broker.close()

    async def submit(self):
        """Submit one item."""
        await self.pipeline.submit(BODY, key=next(self.keys))

    async def run(self, items, submitters):
        """Submit items, and wait until all are sent."""
        seen = self.progress
        processed, sent = seen.processed + items, seen.sent + items
        await submitted(self.submit, items, submitters)
        await seen.until(lambda: seen.processed >= processed)
        while seen.sent < sent:
            now = seen.sent, seen.slots
            if self.is_batched:  # the runner would look within a second
                await self.runner.decider.decide()
            await seen.until(lambda now=now: (seen.sent, seen.slots) != now)
        await seen.until(lambda: seen.ended == seen.shipments)


class HandOvers:
    """The same messages, sent, received and completed by workers; nothing is known about items."""

    name = "layer 2, no ledger"
    can_send_at_once = True

    def __init__(self, *, is_batched=True):
        self.is_batched = is_batched

    async def open(self, url):
        """Open the broker, and run a worker for each stage."""
        self.progress = Progress()
        self.broker = connect(url, upkeep_every=3_600)
        await self.broker.open()
        for queue in ("process", "batch", "send"):
            await self.broker.declare(queue, lock_duration=LOCK_S)
        self.numbers = count(1)
        stages = {"process": (self._process, PROCESSING), "batch": (self._batch, 1), "send": (self._send, SENDING)}
        self.workers, self.running = [], []
        for queue, (handle, concurrency) in stages.items():
            worker = Worker(queue)
            worker.handler(queue, concurrency=concurrency, slow_down=None)(handle)
            self.workers.append(worker)
            self.running.append(asyncio.create_task(worker.run(self.broker)))

    async def close(self):
        """Stop the workers, and close the broker."""
        for worker in self.workers:
            worker.stop()
        await asyncio.gather(*self.running)
        await self.broker.close()

    def _message(self):
        return TaskToken(f"{next(self.numbers):028x}").to_json()

    async def submit(self):
        """Hand an item over to the first stage."""
        await self.broker.send("process", Message.of(self._message()))

    async def _process(self, _body: bytes, context):
        if not self.is_batched:
            context.send("send", self._message())
        context.make_room()  # as the stages of a pipeline do
        await context.complete()
        self.progress.note(processed=1)

    async def _batch(self, body: bytes, context):
        for _ in range(int(body)):
            context.send("send", self._message())
        await context.complete()

    async def _send(self, _body: bytes, context):
        context.make_room()
        await context.complete()
        self.progress.note(ended=1)

    async def run(self, items, submitters):
        """Hand items over, and wait until all have gone through."""
        seen = self.progress
        shipments = -(-items // PER_SHIPMENT) if self.is_batched else items
        processed, ended = seen.processed + items, seen.ended + shipments
        await submitted(self.submit, items, submitters)
        await seen.until(lambda: seen.processed >= processed)
        if self.is_batched:
            await self.broker.send("batch", Message(str(shipments).encode()))
        await seen.until(lambda: seen.ended >= ended)


class Dbos:
    """A DBOS workflow for each item, with a step for each stage; it has no batches over several items."""

    name = "DBOS, a workflow"
    can_send_at_once = False  # that would be the same

    def __init__(self, *, is_batched=True):
        assert is_batched

    async def open(self, url):
        """Launch DBOS in this database."""
        self.start = launched(url, _no_send)
        self.keys = count(1)

    async def close(self):
        """End it."""
        from dbos import DBOS

        DBOS.destroy(destroy_registry=True)

    async def run(self, items, submitters):
        """Start workflows, and wait until all have ended."""
        handles = []

        async def submit():
            handles.append(await self.start(f"key {next(self.keys)}", BODY.decode()))

        await submitted(submit, items, submitters)
        for handle in handles:
            await handle.get_result()


async def _no_send(key, _body):
    return key


def launched(url, send):
    """Launch DBOS; return a function that starts a workflow with a key and a body, whose last step is ``send``."""
    from dbos import DBOS, SetWorkflowID

    logging.getLogger("dbos").setLevel(logging.CRITICAL)
    address = url.replace("postgresql://", "postgresql+psycopg://")
    config = {"name": "bench", "system_database_url": address, "log_level": "CRITICAL", "application_version": "1"}
    # a workflow of many that are started at once may wait for a connection, however long
    DBOS(config=config | {"db_engine_kwargs": {"pool_timeout": 600}})

    @DBOS.step()
    async def receive(body):
        return body

    @DBOS.step()
    async def process(body):
        return body

    @DBOS.step()
    async def batch(body):
        return body

    @DBOS.step()
    async def last(key, body):
        return await send(key, body)

    @DBOS.workflow()
    async def four_steps(key, body):
        return await last(key, await batch(await process(await receive(body))))

    DBOS.launch()

    async def start(key, body):
        with SetWorkflowID(key):
            return await DBOS.start_workflow_async(four_steps, key, body)

    return start


SUBJECTS = {"sqlite": (HandOvers, Staged), "postgres": (HandOvers, Staged, Dbos)}
if find_spec("dbos") is None:
    SUBJECTS["postgres"] = (HandOvers, Staged)
