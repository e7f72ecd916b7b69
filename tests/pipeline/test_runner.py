# SPDX-License-Identifier: MIT
"""How a process that runs a pipeline begins and ends."""

import sys

import pytest

import redrive
from redrive.errors import MissingExtra
from redrive.pipeline import PipelineRunner
from tests.pipeline.pipeline_bench import pipeline


async def test_what_the_awaited_raises_ends_the_runner_and_is_raised(bench):
    async def breaks():
        raise LookupError("no such thing")

    async with redrive.open_pipeline(bench.broker, pipeline("now")) as reports:
        with pytest.raises(LookupError, match="no such thing"):
            await PipelineRunner(reports).run(until=breaks())


async def test_what_receiving_needs_is_named_if_it_is_not_installed(bench, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    pipe = pipeline("now")
    pipe._settings["path"] = "/reports"
    async with redrive.open_pipeline(bench.broker, pipe) as reports:
        with pytest.raises(MissingExtra) as raised:
            await PipelineRunner(reports, listen="127.0.0.1:0").run()
    assert raised.value.extra == "pipeline"
