# SPDX-License-Identifier: MIT
"""What every test shares: how hard Hypothesis looks, and a PostgreSQL server for those who ask for one."""

import os

import pytest
from hypothesis import settings

from tests.postgres.fixtures import (  # noqa: F401 - pytest finds fixtures by their names
    breakable_postgres,
    breakable_url,
    emptied_schema,
    lasting_schema,
    postgres,
    postgres_schema,
    postgres_url,
    shared_breakable_postgres,
)

# No deadline: a slow machine is not a wrong result. HYPOTHESIS_PROFILE=thorough is what `make torture` uses;
# ci repeats the same examples on every run, for bisecting.
settings.register_profile("default", deadline=None, max_examples=100)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


REPEATED = ("tests/crash/", "tests/conformance/test_model.py", "tests/recovery/test_filter_sql.py")
"""They go the same ways again and again: a tracer sees nothing new there, and takes as long as the tests."""

COVERED_ON_POSTGRES = "test_claims"

LONG = (
    *("test_a_process_that_dies_before_any_call_leaves_nothing_behind[paused]", "[racing]", "[archived]", "[edited]"),
    *("test_a_process_after_another_dies_until_one_gets_through[some]", "test_the_process_that_goes_on_may_die_too["),
    "test_it_runs_is_written_down_and_leaves_nothing_behind[postgres]",
)
"""What ``make torture`` runs beside its own: together they would take the usual run over ten minutes."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Let coverage look away where it would only cost time."""
    for item in items:
        path = item.path.as_posix()
        if ("/crash/" in path or "/bench/" in path) and any(part in item.name for part in LONG):
            item.add_marker(pytest.mark.torture)
        is_second_site = "/recovery/" in path and ("[one-schema" in item.name or "[apart" in item.name)
        if any(part in path for part in REPEATED) or (is_second_site and item.path.stem != COVERED_ON_POSTGRES):
            item.add_marker(pytest.mark.no_cover)
