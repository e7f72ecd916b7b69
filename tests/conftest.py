# SPDX-License-Identifier: MIT
"""What every test shares: how hard Hypothesis looks, and a PostgreSQL server for those who ask for one."""

import gc
import os

import pytest
from hypothesis import settings

from tests import cheap_tls, in_memory, migrated
from tests.nats.fixtures import (  # noqa: F401 - pytest finds fixtures by their names
    cluster,
    engine_server,
    nats_namespace,
    shared_engine_server,
    whole,
)
from tests.postgres.fixtures import (  # noqa: F401 - pytest finds fixtures by their names
    breakable_postgres,
    breakable_url,
    emptied_schema,
    emptying,
    lasting_schema,
    postgres,
    postgres_schema,
    postgres_url,
    shared_breakable_postgres,
)
from tests.sample import leave_to_torture
from tests.time_limits import pytest_exception_interact  # noqa: F401 - pytest finds hooks by their names


def pytest_configure(config):
    """Put the folders of tests into memory, which processes of tests inherit; make databases and clients quickly."""
    cheap_tls.use_one_context()
    migrated.use_copies()
    if config.getoption("basetemp") is None and (place := in_memory.place()) is not None:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(place))


LONG = ("tests/conformance/test_model.py", "tests/scenarios/", "tests/bench/", "tests/crash/")
"""Where tests take seconds. They are begun first: at the end one of them would keep one process at work, alone."""


@pytest.hookimpl(tryfirst=True)  # before pytest looks at marks
def pytest_collection_modifyitems(items):
    """Leave some to ``make torture``, and put long tests in front."""
    leave_to_torture(items)
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage while tests are collected: there is none, and looking for it takes a sixth of that time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish():
    """Spare what was collected: 14,000 tests are there to the end, and nothing in them is garbage.

    The collector would look at all of them whenever it runs, for longer than most tests take.
    """
    gc.collect()
    gc.freeze()


# No deadline: a slow machine is not a wrong result. `make test` tries the same examples each time, so that it says the
# same of the same code; `make torture` looks for others, with HYPOTHESIS_PROFILE=thorough.
settings.register_profile("default", deadline=None, max_examples=25, derandomize=True, print_blob=True)
settings.register_profile("thorough", deadline=None, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
