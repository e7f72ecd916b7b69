# SPDX-License-Identifier: MIT
"""``redrive pipeline check``, ``run`` and ``submit``: what needs the plan of a pipeline, with its functions."""

import asyncio
import logging
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from redrive import open_pipeline
from redrive.broker import Broker
from redrive.cli.commands.pipeline.connection import plan_in
from redrive.cli.open import check_exists, with_broker
from redrive.cli.options.connection import BrokerConnection, Url
from redrive.cli.options.groups import grouped
from redrive.cli.options.pipeline import PlanTarget
from redrive.cli.output import console
from redrive.cli.output.pipeline_tables import plan_lines
from redrive.cli.output.sentences import count, some
from redrive.cli.stop_signals import StopSignals
from redrive.pipeline import (
    OpenPipeline,
    PipelinePlan,
    PipelineRunner,
    SlotServed,
    SubmissionReceipt,
    TaskEnded,
    TaskFailed,
    shown_plan,
    views,
)
from redrive.printable import one_line
from redrive.telemetry import Event, log_to_stderr

_CHATTY = ("httpx", "httpcore", "uvicorn", "asyncssh")


@grouped
def check(
    target: PlanTarget,
    *,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print a drawing of it, in Mermaid.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Check a pipeline, and print what it does.

    It needs no database, and changes nothing. Its functions are imported,
    also from the current directory.

    Examples:
      redrive pipeline check reports.toml
      redrive pipeline check reports.toml --mermaid
      redrive pipeline check shop.reports:pipe --json
    """
    plan = plan_in(target)
    if mermaid:
        console.out().print(one_line_each(plan.mermaid()), soft_wrap=True)
        return
    shown = shown_plan(plan)
    if as_json:
        console.print_json(views.plan_view(shown))
        return
    console.say(f"{target}: {count(len(plan.destinations), 'destination')}: valid")
    for line in plan_lines(shown):
        console.out().print(line, soft_wrap=True)


def one_line_each(text: str) -> str:
    """Return a text of several lines with nothing raw in any of them."""
    return "\n".join(one_line(line, 10_000) for line in text.splitlines())


# --- running


class StageCounts:
    """Counts what a pipeline does while it runs."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def __call__(self, event: Event) -> None:
        """Take an event."""
        match event:
            case TaskEnded(stage=stage):
                self._seen[stage] += 1
            case SlotServed(outcome="served"):
                self._seen["batch"] += 1
            case TaskFailed(delay=None):
                self._seen["failed"] += 1
            case _:
                pass

    def __str__(self) -> str:
        seen = self._seen
        parts = [count(seen["process"], "report"), count(seen["batch"], "slot"), count(seen["send"], "send task")]
        return f"done: {', '.join(parts)}; {seen['failed']:,} failed"


@grouped
def run(
    target: PlanTarget,
    *,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where submissions are received; port 0 is any that is free.")
    ] = "127.0.0.1:8080",
    url: Url = None,
) -> None:
    """Run a pipeline until Ctrl-C or SIGTERM.

    The database is created if it does not exist. Several processes may run
    the same pipeline. What has begun is finished at the end; a second signal
    ends it at once, and the next process goes on.

    Examples:
      redrive pipeline run reports.toml
      redrive pipeline run shop.reports:pipe --listen 127.0.0.1:8080
    """
    plan = plan_in(target)
    log_to_stderr()
    for name in _CHATTY:  # a line for each request says nothing that events do not
        logging.getLogger(name).setLevel(logging.WARNING)
    counts = StageCounts()

    async def serve(broker: Broker) -> None:
        async with open_pipeline(broker, plan) as pipeline:
            await _run(pipeline, listen, signals, counts)

    with StopSignals() as signals:
        with_broker(BrokerConnection(url), serve, may_create=True)
    console.hint(str(counts), "")


async def _run(pipeline: OpenPipeline, listen: str, signals: StopSignals, counts: StageCounts) -> None:
    runner, loop = PipelineRunner(pipeline, listen=listen, on_event=counts), asyncio.get_running_loop()
    # not at once: a signal that arrives before it runs must stop it after it has begun to
    signals.on_signal = lambda: loop.call_soon_threadsafe(runner.stop)
    path = pipeline.plan.path
    runner.http.on_listening = lambda address: console.hint(f"submissions are received at http://{address}{path}", "")
    try:
        if not signals.count:
            console.hint(_beginning(pipeline.plan, pipeline.version), "")
            await runner.run()
    finally:
        signals.on_signal = None  # the loop is about to close


def _beginning(plan: PipelinePlan, version: int) -> str:
    destinations = some(list(plan.destinations), 20)
    return f"runs pipeline {plan.name}, version {version}, to {destinations}; Ctrl-C stops it"


# --- submitting


@grouped
def submit(
    target: PlanTarget,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to submit; - for standard input.")],
    *,
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Names it: the same key and body are submitted once.")
    ] = None,
    content_type: Annotated[str | None, typer.Option(metavar="TEXT", help="The MIME type of the body.")] = None,
    connection: BrokerConnection,
) -> None:
    """Submit a file to a pipeline; when this ends, it is stored.

    It needs the pipeline's receive function, and so its plan. A process
    with redrive pipeline run does the work. A plan that differs from what
    runs changes nothing about that.

    Examples:
      redrive pipeline submit reports.toml report.json --key report-17
      redrive pipeline submit shop.reports:pipe - --key report-18
    """
    check_exists(connection.broker_url)
    plan, body = plan_in(target), _read(file)

    async def work(broker: Broker) -> SubmissionReceipt:
        pipeline = open_pipeline(broker, plan)
        await pipeline.ledger.open()
        stored = await pipeline.ledger.versions(plan.name)
        if not stored:  # it has no queues yet
            async with pipeline:
                return await pipeline.submit(body, key=key, content_type=content_type)
        pipeline.adopt(plan, stored[0][0])
        try:
            return await pipeline.submit(body, key=key, content_type=content_type)
        finally:
            await pipeline.ledger.close()

    receipt = with_broker(connection, work)
    if connection.as_json:
        console.print_json(views.record_view(receipt))
        return
    if receipt.is_new:
        console.say(f"submitted as task {receipt.task}, with {count(receipt.items, 'item')}")
    else:
        console.say(f"the same was submitted before, as task {receipt.task}")
    console.hint(f"what has become of it: redrive pipeline trace {receipt.task}")


def _read(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise console.refusal(one_line(f"{file} cannot be read: {error.strerror}")) from None
