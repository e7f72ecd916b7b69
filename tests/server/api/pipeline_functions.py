# SPDX-License-Identifier: MIT
"""A pipeline for tests of the API, and its functions."""

import asyncio

from redrive import open_pipeline
from redrive.pipeline import OutcomeUnknown, Output, PipelineRunner, TaskState, parse_pipeline

HERE = "tests.server.api.pipeline_functions"
PLAN = f"""
[pipeline]
name = "reports"
receive = "{HERE}:receive"
process = "{HERE}:route"
tries = 1

[destinations.archive]
transport = {{ kind = "call", function = "{HERE}:archive" }}
guarantee = "at_most_once"
retry = []

[destinations.lab]
transport = {{ kind = "queue", queue = "lab" }}
timing = {{ every = "366d" }}
"""


async def make_pipeline(desk, bodies=(b"one", b"unknown", b"lab-1")):
    """Submit something to a pipeline, and let it do all that is to be done now."""
    await desk.broker.declare("lab")
    async with open_pipeline(desk.broker, parse_pipeline(PLAN)) as pipeline:
        for body in bodies:
            await pipeline.submit(body, key=body.decode())
        runner = PipelineRunner(pipeline, listen="127.0.0.1:0")
        running = asyncio.create_task(runner.run())
        while await _is_busy(pipeline):
            assert not running.done(), running
            await runner.decider.decide()
        runner.stop()
        await running


async def _is_busy(pipeline):
    queues = [each for each in await pipeline.broker.queues() if each.name.startswith("pipelines/")]
    ready = await pipeline.tasks("reports", states=[TaskState.READY], limit=1)
    return ready or any(each.ready + each.locked for each in queues)


def receive(submission):
    return submission.body.split()


def route(report):
    for item in report.items:
        yield Output("lab" if item.body.startswith(b"lab") else "archive", [item])


def archive(shipment):
    if shipment.body == b"unknown":
        return OutcomeUnknown("no answer")
    return "archived"
