# SPDX-License-Identifier: MIT
"""A pipeline: hospitals post reports, three destinations get them, and in one night each stage fails once.

The tables say at each moment what is done and what is not, and only what failed is done again. The clock is in the
program's hand, so that the night takes a few seconds; it begins twelve hours ago, so that SQL's own clock agrees.
"""

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from redrive import connect, open_pipeline
from redrive.broker import Broker
from redrive.clock import pause, system_clock
from redrive.errors import SubmissionRefused
from redrive.pipeline import (
    CallTransport,
    FileTransport,
    Item,
    OpenPipeline,
    Output,
    PerDay,
    Pipeline,
    PipelineRunner,
    Report,
    Shipment,
    Submission,
)
from redrive.testing import ManualClock

FIRST = "Ann,Kent,negative\nBo,Kent,positive\nCy,Kent,negative"
SECOND = "Di,Dover,positive"

STUCK_PROCESS = """
    select next_action, state, item_count, reason from redrive_task
    where next_action = 'process' and state in ('ready', 'failed')
    and next_action_at < datetime('now', '-15 minutes')"""
STUCK_BATCH = """
    select next_action, destination, state, item_count from redrive_task
    where next_action = 'batch' and state in ('waiting', 'failed', 'expired')
    and created_at > datetime('now', '-4 days') and next_action_at < datetime('now', '-15 minutes')"""
FAILED_SENDS = """
    select next_action, destination, state, retries, retry_items, reason from redrive_task
    where next_action = 'send' and state in ('ready', 'failed', 'unknown')
    and created_at > datetime('now', '-4 days') and next_action_at < datetime('now', '-15 minutes')"""
TASKS = """
    select next_action, destination, state, count(*) from redrive_task
    group by next_action, destination, state order by next_action, destination, state"""


@dataclass
class World:
    """What is outside: some of it is broken in the evening, and mended in the night or in the morning."""

    folder: Path
    counties: set[str] = field(default_factory=lambda: {"Kent"})
    on_holiday: set[str] = field(default_factory=lambda: {"Bo"})
    in_laboratory: list[str] = field(default_factory=list[str])

    @property
    def header(self) -> Path:
        """What files for the county begin with."""
        return self.folder / "county-header.txt"

    def call_laboratory(self, shipment: Shipment) -> None:
        """Give one result to the laboratory."""
        name = shipment.body.decode().split(",")[0]
        if name in self.on_holiday:
            raise ConnectionError(f"{name} has no file here today")
        self.in_laboratory.append(name)


def pipeline(world: World) -> Pipeline:
    """Return the pipeline: two destinations have a timing, and the laboratory has none."""
    pipe = Pipeline("reports", path="/reports")

    @pipe.receive
    def results(submission: Submission) -> list[str]:
        if not submission.body:
            raise SubmissionRefused("the report is empty")
        return submission.body.decode().splitlines()

    @pipe.process
    def route(report: Report) -> Iterator[Output]:
        for item in report.items:
            county = item.body.decode().split(",")[1]
            if county not in world.counties:
                raise LookupError(f"county {county} is unknown")
        for destination in pipe.plan.destinations:
            yield Output(destination, report.items)

    def one_file(items: Sequence[Item]) -> str:
        return "\n".join(sorted(item.body.decode() for item in items))

    def with_header(items: Sequence[Item]) -> str:
        return world.header.read_text() + one_file(items)

    laboratory = CallTransport(world.call_laboratory, deduplicates=True)
    pipe.destination("laboratory", laboratory, retry=["10m", "1h"])
    pipe.destination("state", FileTransport(str(world.folder / "state")), timing=PerDay(24), merge=one_file)
    pipe.destination("county", FileTransport(str(world.folder / "county")), timing=PerDay(12), merge=with_header)
    return pipe


@dataclass
class Night:
    """A pipeline that runs, and a clock that moves when nothing is left to do."""

    reports: OpenPipeline
    broker: Broker
    clock: ManualClock
    database: Path
    runner: PipelineRunner

    async def post(self, body: str, key: str) -> None:
        """Post a report as a hospital does, and print the answer."""
        while not self.runner.http.port:
            await pause(system_clock, 0.01)
        url = f"http://127.0.0.1:{self.runner.http.port}/reports"
        async with httpx.AsyncClient() as client:
            response = await client.post(url, content=body, headers={"Idempotency-Key": key})
        answer = response.json()
        said = answer.get("detail") or f"{answer['items']} items, repeated: {answer['repeated']}"
        print(f"  {key}: {response.status_code}", said)

    async def passes(self, hours: float) -> None:
        """Let hours pass, five minutes at a time."""
        for _ in range(round(hours * 12)):
            await self._nothing_left()
            self.clock.advance(300)
        await self._nothing_left()

    async def _nothing_left(self) -> None:
        looks = 0
        while looks < 5:
            queues = [await self.broker.inspect(name) for name in self.reports.plan.queues]
            looks = 0 if any(queue.ready + queue.locked for queue in queues) else looks + 1
            await pause(system_clock, 0.002)

    def ask(self, about: str, question: str) -> None:
        """Print what the database answers."""
        print(f"{about}:")
        with closing(sqlite3.connect(self.database)) as database:
            for row in database.execute(question):
                print("  ", " | ".join(str(each) for each in row))


async def story(night: Night, world: World) -> None:
    """Live through the night."""
    print("hospitals post reports; what has no answer is posted again")
    await night.post(FIRST, "hospital-1")
    await night.post(FIRST, "hospital-1")
    await night.post(SECOND, "hospital-1")
    await night.post(SECOND, "hospital-2")
    await night.post("", "hospital-3")
    await night.passes(0.5)
    night.ask("after half an hour", TASKS)
    night.ask("what should have been processed", STUCK_PROCESS)
    await night.passes(2.5)
    night.ask("what should have been batched", STUCK_BATCH)
    night.ask("what was not sent", FAILED_SENDS)
    world.header.write_text("name,county,result\n")
    await night.passes(2)
    night.ask("the header is there, and the next slot has come; what should have been batched", STUCK_BATCH)
    world.counties.add("Dover")
    world.on_holiday.clear()
    for task in await night.reports.stuck():
        await night.reports.resend(task.id, actor="ann", reason="it is mended")
    await night.passes(2.5)
    night.ask("in the morning", TASKS)


async def main() -> None:
    """Run the pipeline for a night."""
    with TemporaryDirectory() as folder:
        world = World(Path(folder))
        database = world.folder / "reports.db"
        clock = ManualClock(system_clock.time() // 7_200 * 7_200 - 12 * 3_600)
        async with (
            connect(f"sqlite:///{database}?synchronous=normal", clock=clock) as broker,
            open_pipeline(broker, pipeline(world)) as reports,
        ):
            runner = PipelineRunner(reports, listen="127.0.0.1:0")
            night = Night(reports, broker, clock, database, runner)
            await runner.run(until=story(night, world))
            print("in the laboratory, each once:", ", ".join(sorted(world.in_laboratory)))
            assert sorted(world.in_laboratory) == ["Ann", "Bo", "Cy", "Di"]
            assert await reports.stuck() == []


if __name__ == "__main__":
    asyncio.run(main())
