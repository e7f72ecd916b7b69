# SPDX-License-Identifier: MIT
"""Every test that asks for a site is run on all three, some of them in ``make torture`` only."""

import zlib

import pytest

from redrive.recovery.transformer import Transformer
from tests.migrated import use_copies
from tests.recovery.sites import CHANGING, SITES

ON_A_SERVER = ("one-schema", "apart")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave to ``make torture`` what takes long and is shown already on another site.

    A test with further parameters is run with all of them in one file, and with the first of them on a server. Of the
    tests without, one in three is run on a server: the statements are the same there, and were translated by one place.
    """
    seen = set()
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        is_apart = "[apart" in item.name and ("between_databases" not in marks or "large" in marks)
        is_schema = "[one-schema" in item.name and not marks.isdisjoint({"before_databases", "large"})
        site = next((name for name in ON_A_SERVER if f"[{name}-" in item.name), None)
        is_repeated = (item.path, item.originalname, site) in seen
        is_alike = item.name.endswith("[one-schema]") and zlib.crc32(item.originalname.encode()) % 3 > 0
        if site is not None:
            seen.add((item.path, item.originalname, site))
        if is_apart or is_schema or is_repeated or is_alike:
            item.add_marker(pytest.mark.torture)


@pytest.fixture(autouse=True)
def new_files_have_their_tables(monkeypatch):
    use_copies(monkeypatch)


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
