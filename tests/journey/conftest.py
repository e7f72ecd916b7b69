# SPDX-License-Identifier: MIT
"""A broker on each database, with time in the test's hand."""

import pytest

from redrive import connect
from redrive.testing import ManualClock


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    """Where the queues are."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'queues.db'}"
    return f"{request.getfixturevalue('postgres_url')}&schema={request.getfixturevalue('postgres_schema')}"


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
async def broker(url, clock):
    async with connect(url, clock=clock) as opened:
        yield opened
