# SPDX-License-Identifier: MIT
"""A bench for receivers and senders."""

import pytest

from tests.routes.local.bench_of_parts import PartBench


@pytest.fixture
async def bench(tmp_path):
    made = PartBench(tmp_path)
    async with made.broker:
        yield made
        await made.close()
