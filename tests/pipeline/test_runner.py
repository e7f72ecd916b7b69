# SPDX-License-Identifier: MIT
"""How a process that runs a pipeline begins and ends."""

import pytest

import redrive
from redrive.pipeline import PipelineRunner
from tests.pipeline.pipeline_bench import pipeline


async def test_what_the_awaited_raises_ends_the_runner_and_is_raised(bench):
    async def breaks():
        raise LookupError("no such thing")

    async with redrive.open_pipeline(bench.broker, pipeline("now")) as reports:
        with pytest.raises(LookupError, match="no such thing"):
            await PipelineRunner(reports).run(until=breaks())
