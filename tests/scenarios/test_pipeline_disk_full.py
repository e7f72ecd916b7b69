# SPDX-License-Identifier: MIT
"""The disk fills up under a pipeline: senders are told so, no attempt is used up, and everything is sent in the end."""

import asyncio
import sqlite3
from collections import Counter
from contextlib import asynccontextmanager, closing
from typing import ClassVar

from redrive import connect, open_pipeline
from redrive.errors import EngineUnavailable, StorageFull
from redrive.http.request import HttpRequest
from redrive.pipeline import (
    Every,
    Limits,
    OpenTransport,
    Output,
    Pipeline,
    PipelineRunner,
    ShipmentSent,
    TaskState,
    Transport,
)
from redrive.pipeline.intake import PipelineIntake

MEGABYTE = 1_000_000
BODY_BYTES = 8_000
AT_ONCE = 4


class Kept(Transport):
    """Keeps what it gets."""

    kind = "kept"
    got: ClassVar[Counter] = Counter()

    @property
    def address(self):
        return "kept"

    @property
    def deduplicates(self):
        return True

    def open(self, _environment) -> OpenTransport:
        return self

    async def send(self, shipment):
        Kept.got.update(line[:12] for line in shipment.body.split(b"\n"))
        return ShipmentSent("kept")

    async def close(self):
        return


def everywhere(report):
    for name in ("direct", "batched"):
        yield Output(name, report.items)


def merge(items):
    return b"\n".join(item.body for item in items)


def plan():
    pipe = Pipeline("reports", concurrency=AT_ONCE)
    pipe.process(everywhere)
    pipe.destination("direct", Kept())
    pipe.destination("batched", Kept(), timing=Every(86_400), limits=Limits(max_items=1), merge=merge)
    return pipe


@asynccontextmanager
async def running(pipeline):
    runner = PipelineRunner(pipeline, listen="127.0.0.1:0")
    task = asyncio.create_task(runner.run())
    try:
        yield runner
    finally:
        runner.stop()
        await task


async def submit_until_full(pipeline, answers):
    """Submit until senders are told several times that the disk is full; return the keys that were taken."""
    taken, refused = [], 0
    numbers = iter(range(1_000_000))

    async def sender():
        nonlocal refused
        while refused < 20:
            key = f"report {next(numbers):05d}"
            try:
                await pipeline.submit(key.encode() + bytes(BODY_BYTES), key=key)
                taken.append(key)
            except StorageFull:
                refused += 1
                answers.append(await answered(pipeline, f"{key} by HTTP"))

    await asyncio.gather(*(sender() for _ in range(AT_ONCE)))
    return taken


async def answered(pipeline, key):
    """Return the status and the headers of the answer to a submission by HTTP."""
    request = HttpRequest("POST", "/reports", {"idempotency-key": key}, bytes(BODY_BYTES))
    answer = await PipelineIntake(pipeline._environment()).answer(request)
    return answer.status, dict(answer.headers)


async def test_a_full_disk_uses_up_no_attempt_and_everything_is_sent_when_there_is_room(small_disk):
    Kept.got = Counter()
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(4 * MEGABYTE))
    answers = []
    async with connect(f"sqlite:///{small_disk / 'queue.db'}") as broker, open_pipeline(broker, plan()) as pipeline:
        async with running(pipeline) as runner:
            taken = await submit_until_full(pipeline, answers)
            await ended(pipeline, runner, until_full=True)
            ballast.unlink()
            await ended(pipeline, runner)
        assert {each.name for each in await pipeline.history(limit=100_000)} <= {
            "receive",
            "process",
            "batch",
            "send",
        }
        tasks = await pipeline.tasks(limit=100_000)
        assert {each.state for each in tasks} == {TaskState.DONE}
        assert {each.retries for each in tasks} == {0}
        stored = [each for each in tasks if each.stage == "process"]
    full = [headers for status, headers in answers if status == 503]
    print(f"{len(taken):,} taken, {len(answers):,} refused, {len(full):,} of them by HTTP")
    assert len(taken) > 20
    assert full
    assert all(int(headers["retry-after"]) >= 1 for headers in full)
    assert {key.encode()[:12] for key in taken} <= set(Kept.got)
    assert sum(status in (200, 201) for status, _ in answers) + len(taken) == len(stored)
    with closing(sqlite3.connect(small_disk / "queue.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def ended(pipeline, runner, *, until_full=False):
    """Wait until nothing is left to be done, or until the disk is too full for the next step."""
    while True:
        try:
            await runner.decider.decide()
            left = [state for (_, _, state), many in (await pipeline.counts("reports")).items() if many]
        except StorageFull:
            if until_full:
                return
        except EngineUnavailable:
            continue
        else:
            if set(left) == {TaskState.DONE}:
                return
