# SPDX-License-Identifier: MIT
"""Fixtures for pipelines."""

import pytest

from tests.pipeline.pipeline_bench import PipelineBench


@pytest.fixture
async def bench(tmp_path):
    made = PipelineBench(f"sqlite:///{tmp_path}/pipeline.db?synchronous=normal")
    async with made.broker:
        yield made
        await made.stop()
