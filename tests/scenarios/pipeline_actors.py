# SPDX-License-Identifier: MIT
"""The process that runs a pipeline: ``python pipeline_actors.py runner URL DIARY NAME STOP``.

It takes reports by HTTP at ``ACTOR_LISTEN``, sends each item by itself to ``ACTOR_HOOK``, and what has come in a second
as one file to the SFTP server at ``ACTOR_SFTP``. It is killed again and again.
"""

import asyncio
import faulthandler
import os
import sys
from pathlib import Path

import redrive
from redrive.errors import EngineUnavailable
from redrive.pipeline import Every, Output, Pipeline, PipelineRunner
from redrive.pipeline.transports.http import HttpTransport
from redrive.pipeline.transports.sftp import SftpTransport
from redrive.retry import Fixed, retry
from tests.patience import PATIENCE_S
from tests.scenarios.actors import Diary
from tests.scenarios.routes_actors import listening, wait_until

PATH = "/reports"
PATIENT = {"retry": (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0), "probe_after": 0.3, "breaker_failures": 30}


def split(submission):
    """Take a report apart: a line is an item."""
    return submission.body.split(b"\n")


def send_everywhere(report):
    """Send every item to both destinations."""
    for name in ("hook", "files"):
        yield Output(name, report.items)


def merge(items):
    """Make a file of all items."""
    return b"\n".join(item.body for item in items)


def plan(hook, sftp, host_key):
    """Return the pipeline.

    Args:
        hook: the URL of the HTTP destination.
        sftp: the port of the SFTP destination.
        host_key: its key.
    """
    pipe = Pipeline("reports", path=PATH)
    pipe.receive(split)
    pipe.process(send_everywhere)
    pipe.destination("hook", HttpTransport(hook, deduplicates=True, timeout=1.0), concurrency=8, **PATIENT)
    files = SftpTransport(
        "127.0.0.1",
        "lab",
        port=sftp,
        host_key=host_key,
        password="env:ACTOR_PASSWORD",  # noqa: S106 - the name of a variable
        timeout=1.5,
    )
    pipe.destination("files", files, timing=Every(1.0), merge=merge, **PATIENT)
    return pipe.plan


def plan_here():
    """Return the pipeline of this process."""
    return plan(os.environ["ACTOR_HOOK"], int(os.environ["ACTOR_SFTP"]), os.environ["ACTOR_HOST_KEY"])


async def run(broker, diary, should_stop):
    """Run the pipeline."""
    async with redrive.open_pipeline(broker, plan_here()) as pipeline:
        runner = PipelineRunner(pipeline, listen=os.environ["ACTOR_LISTEN"])
        runner.http.on_listening = lambda _where: listening(diary)
        stopping = asyncio.create_task(asyncio.to_thread(wait_until, should_stop))
        await runner.run(until=stopping)
    diary.write("ended")


async def main(role, url, diary, _name, stop):
    """Play a role until it is told to stop."""
    faulthandler.dump_traceback_later(PATIENCE_S / 2)  # one that does not come to listening says where it is
    play = {"runner": run}[role]
    broker = redrive.connect(url)
    opening = retry(on=EngineUnavailable, policy=Fixed(0.1, max_attempts=200), deadline=None)
    await opening.call_async(broker.__aenter__)
    try:
        await play(broker, Diary(diary), Path(stop).exists)
    finally:
        await broker.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
