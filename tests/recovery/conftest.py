# SPDX-License-Identifier: MIT
"""Every test that asks for a site is run on all three, some of them in ``make torture`` only."""

import pytest

from redrive.recovery.transformer import Transformer
from tests.recovery.sites import CHANGING, SITES


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
