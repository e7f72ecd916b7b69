# SPDX-License-Identifier: MIT
"""What ``make test`` leaves to ``make torture``: repetitions of what another test of the same run shows already.

Statements for PostgreSQL are translated from those for SQLite in one place, and the conformance suite runs on both in
full. So of the tests of the layers above that are run in a file, one in six is run on a server as well. A test with
many sets of parameters that needs a store is run with two of them, on a server with one.
"""

import re
import zlib
from collections import Counter, defaultdict

import pytest

SAMPLED = tuple(
    f"tests/{folder}/"
    for folder in (
        *("access", "attention", "cli", "crash", "history", "journey", "notifications", "pipeline", "recovery"),
        *("scenarios", "server", "worker"),
    )
)
ON_A_SERVER = re.compile(r"(?<![\w.])(apart|one-schema|((queues|ledger)-in-)?postgres(_site)?|server)(?![\w.])")
ONE_IN = 6
MOST_SETS = 2
STORES = frozenset({"site", "process", "homes", "desk", "place", "lasting_world"})
"""Fixtures that make a store for each test."""

ONE_OF = {
    "tests/conformance/test_core.py": 3,  # SQLite, made to look as if it could do less
    "tests/conformance/test_sqlite.py::TestSqliteInMemory": 3,  # the same in a file is run in full
    "tests/routes/test_mixed_outcomes.py": 6,  # every combination of three routes and their failures
    "tests/cli/test_hostile_text.py": 4,  # every command with every text
    "tests/engines/postgres/test_outbox.py": 3,  # every client library with every way to send
    "tests/browser/test_every_page.py::test_a_page_loads": 4,  # every page, wide and narrow
    "tests/conformance/test_postgres.py::TestPostgres::test_what_can_never_work": 4,  # refused before it is sent
    "tests/conformance/test_nats.py::TestNats::test_what_can_never_work": 4,
    "tests/docs/test_documentation.py::test_a_page_can_be_read_with_one_session": 4,  # each of its pieces is run alone
    "tests/engines/sqlite/test_errors.py::test_a_damaged_file": 3,
    "tests/engines/postgres/test_cuts.py::test_a_settlement_that_is_cut_off": 2,
}
"""Where tests are much the same, and how many of them there are to one that is run."""

SETS = {
    "tests/bench/test_scripts.py::test_it_says_what_it_can_do": 3,
    "tests/cli/commands/test_pipeline.py::test_a_pipeline_runs_until_a_signal": 1,
    "tests/cli/commands/test_routes.py::test_routes_run_until_a_signal": 1,
    "tests/cli/commands/test_serve.py::test_it_answers_until_a_signal": 1,
    "tests/cli/commands/test_worker.py::test_a_stop_during_the_start": 1,
    "tests/cli/commands/test_worker.py::test_processes_that_fail_at_once": 1,
    "tests/cli/commands/test_worker.py::test_several_processes_share_the_work": 1,
    "tests/cli/commands/test_worker.py::test_until_idle_it_ends": 1,
    "tests/crash/test_recovery_crashes.py::test_a_call_that_fails": 1,
    "tests/crash/test_recovery_crashes.py::test_a_process_that_dies_before_any_call": 4,
    "tests/crash/test_recovery_crashes.py::test_an_engine_that_is_not_transactional": 1,
    "tests/pipeline/test_crash_bulk_resend.py::test_who_sends_all_failed_tasks_again_dies": 2,
    "tests/pipeline/test_crash_controls.py::test_a_crash_shows_what_is_missing": 3,
    "tests/pipeline/test_crashes.py::test_a_call_that_fails": 1,
    "tests/pipeline/test_crashes.py::test_a_process_that_dies_at_any_call": 5,
    "tests/pipeline/test_crashes.py::test_a_process_that_stood_still": 2,
    "tests/recovery/test_redirect_and_edit.py::test_what_a_function_may_not_do": 2,
    "tests/recovery/test_transformer.py::test_whatever_a_function_does": 6,
    "tests/retry/test_pitfalls.py::test_pitfall_17": 2,
    "tests/routes/test_crashes.py::test_a_call_that_fails": 2,
    "tests/routes/test_crashes.py::test_a_process_that_dies_at_any_call": 2,
    "tests/routes/test_poison.py::test_an_event_whose_sender_ends_the_process": 4,
    "tests/scenarios/test_torture.py::test_every_acknowledged_send": 1,
    "tests/scenarios/test_worker_processes.py::test_every_process_ends_well": 1,
}
"""Where each set of parameters takes a second or more, and how many of them are run."""


def leave_to_torture(items):
    """Mark the tests that are left to ``make torture``, of all that were collected."""
    for item in items:
        many = next((many for place, many in ONE_OF.items() if item.nodeid.startswith(place)), 1)
        if zlib.crc32(item.nodeid.encode()) % many:
            item.add_marker(pytest.mark.torture)
    _leave_sets(items)
    several = [each for each in items if each.nodeid.startswith(SAMPLED) and hasattr(each, "callspec")]
    in_a_file = {(each.path, each.originalname) for each in several if _store(each) == "file"}
    sets = Counter()
    for item in several:
        test, store = (item.path, item.originalname), _store(item)
        is_left = store != "file" and test in in_a_file and not _is_chosen(item, store)
        if not is_left and not STORES.isdisjoint(item.fixturenames):
            sets[test, store] += 1
            is_left = sets[test, store] > (MOST_SETS if store == "file" else 1)
        if is_left:
            item.add_marker(pytest.mark.torture)


def _leave_sets(items):
    """Leave all sets but some, at equal distances, of which the first is one."""
    sets = defaultdict(list)
    for item in items:
        if item.get_closest_marker("torture") is None:
            sets[item.nodeid.partition("[")[0]].append(item)
    for test, of_test in sets.items():
        most = next((most for place, most in SETS.items() if test.startswith(place)), len(of_test))
        run = {number * len(of_test) // most for number in range(most)}
        for number, item in enumerate(of_test):
            if number not in run:
                item.add_marker(pytest.mark.torture)


def _store(item):
    found = ON_A_SERVER.search(item.callspec.id)
    return found[0] if found else "file"


def _is_chosen(item, store):
    """Return whether a test is run on a server every day; on two databases only if it goes on between them."""
    if store == "apart" and item.get_closest_marker("between_databases") is None:
        return False
    if any(item.get_closest_marker(name) for name in ("before_databases", "large")):
        return False
    return zlib.crc32(item.originalname.encode()) % ONE_IN == 0
