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


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    """Return an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/pipeline.db?synchronous=normal"
    schema = request.getfixturevalue("emptied_schema")
    request.getfixturevalue("emptying")()
    return f"{request.getfixturevalue('postgres_url')}&schema={schema}"
