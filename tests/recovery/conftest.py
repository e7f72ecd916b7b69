# SPDX-License-Identifier: MIT
"""Every test that asks for a site is run on all three, some of them in ``make torture`` only."""

import pytest

from tests.recovery.sites import SITES

APART = ("test_claims", "test_forwarding", "test_staging")
"""What goes on between queues and ledger: here it makes a difference that they are in two databases."""

ALONE = ("test_bad_input",)
"""What is refused before any database is asked."""

LARGE = (
    *("many_ids", "two_thousand", "archiving_many", "only_to_the_end", "dead_process_was_marking", "cancelled_archive"),
    *("store_that_is_full", "what_they_were", "after_cancel_has_returned"),
)
"""Tests with thousands of messages."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave to ``make torture`` what takes long and is shown already on another site."""
    for item in items:
        module, is_large = item.path.stem, any(word in item.name for word in LARGE)
        is_apart, is_schema = "[apart" in item.name, "[one-schema" in item.name
        if (is_apart and (module not in APART or is_large)) or (is_schema and (module in ALONE or is_large)):
            item.add_marker(pytest.mark.torture)


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
