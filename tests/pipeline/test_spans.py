# SPDX-License-Identifier: MIT
"""The stages of a pipeline are spans in the trace of what was submitted."""

import asyncio

import pytest

from redrive import connect, open_pipeline
from redrive.broker.headers import PARENT
from redrive.pipeline import Output, Pipeline, PipelineRunner, QueueTransport
from tests.spans import collected

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans(monkeypatch):
    with collected(monkeypatch) as found:
        yield found


async def test_the_trace_of_a_submission_goes_through_the_stages_to_what_is_sent(spans):
    pipeline = Pipeline("reports")
    pipeline.destination("out", QueueTransport(queue="out"))

    @pipeline.process
    def process(report):
        yield Output("out", report.items)

    async with connect("sqlite:///:memory:") as broker:
        await broker.declare("out")
        async with open_pipeline(broker, pipeline) as opened:
            await opened.submit(b"a report", key="r-1", headers={"traceparent": TRACE})

            async def arrived():
                while not (found := await broker.receive("out", wait=1)):
                    pass
                return found[0]

            waiting = asyncio.ensure_future(arrived())
            await PipelineRunner(opened).run(until=waiting)
    found = waiting.result()
    stages = [each for each in spans.all() if "redrive.stage" in (each.attributes or {})]
    assert {each.name for each in stages} == {"process stage of reports", "send stage of reports"}
    assert {format(each.context.trace_id, "032x") for each in stages} == {TRACE.split("-")[1]}
    assert found.headers["traceparent"].split("-")[1] == TRACE.split("-")[1]
    assert PARENT in found.headers
