# SPDX-License-Identifier: MIT
"""A site, an intake and a destination for each test."""

import pytest

from redrive.testing import ManualClock
from tests.http.site import Destination, GatedIntake, Site


@pytest.fixture
async def intake():
    return GatedIntake()


@pytest.fixture
async def site():
    site = Site()
    yield site
    await site.close()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
async def timed_site(clock):
    """A site whose time limits go by the test's clock."""
    site = Site(clock, body_timeout=30)
    yield site
    await site.close()


@pytest.fixture
async def small_site():
    """A site that answers two requests at a time."""
    site = Site(max_in_flight=2)
    yield site
    await site.close()


@pytest.fixture
async def destination():
    destination = Destination()
    await destination.start()
    yield destination
    await destination.stop()
