# SPDX-License-Identifier: MIT
"""Every test that asks for a site is run on all three, some of them in ``make torture`` only."""

import pytest

from redrive.recovery.transformer import Transformer
from tests.recovery.sites import CHANGING, SITES


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave to ``make torture`` what takes long and is shown already on another site."""
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        is_apart = "[apart" in item.name and ("between_databases" not in marks or "large" in marks)
        is_schema = "[one-schema" in item.name and not marks.isdisjoint({"before_databases", "large"})
        if is_apart or is_schema:
            item.add_marker(pytest.mark.torture)


@pytest.fixture(autouse=True)
def time_stands_still_while_messages_are_changed(monkeypatch):
    exchange = Transformer._exchange

    async def noted(self, transform, message):
        CHANGING.append(message)
        try:
            return await exchange(self, transform, message)
        finally:
            CHANGING.remove(message)

    monkeypatch.setattr(Transformer, "_exchange", noted)


@pytest.fixture(params=SITES)
def homes(request):
    return SITES[request.param](request)


@pytest.fixture
async def site(homes):
    yield homes
    await homes.close()
    homes.remove()


@pytest.fixture
async def process(site):
    return await site.open()
