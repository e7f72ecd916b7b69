# SPDX-License-Identifier: MIT
"""What ``make test`` leaves to ``make torture``: repetitions of what another test of the same run shows already.

Statements for PostgreSQL are translated from those for SQLite in one place, and the conformance suite runs on both in
full. So of the tests of the layers above that are run in a file, one in six is run on a server as well. A test with
many sets of parameters that needs a store is run with three of them, on a server with one.
"""

import re
import zlib
from collections import Counter

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
MOST_SETS = 3
STORES = frozenset({"site", "process", "homes", "desk", "place", "lasting_world"})
"""Fixtures that make a store for each test."""

ONE_OF = {
    "tests/conformance/test_core.py": 3,  # SQLite, made to look as if it could do less
    "tests/conformance/test_sqlite.py::TestSqliteInMemory": 3,  # the same in a file is run in full
    "tests/routes/test_mixed_outcomes.py": 6,  # every combination of three routes and their failures
    "tests/cli/test_hostile_text.py": 4,  # every command with every text
    "tests/engines/postgres/test_outbox.py": 3,  # every client library with every way to send
    "tests/routes/test_poison.py::test_an_event_whose_sender_ends_the_process": 4,  # every seed with every number
    "tests/browser/test_every_page.py::test_a_page_loads": 2,  # every page, wide and narrow
}
"""Where tests are much the same, and how many of them there are to one that is run."""


def leave_to_torture(items):
    """Mark the tests that are left to ``make torture``, of all that were collected."""
    for item in items:
        many = next((many for place, many in ONE_OF.items() if item.nodeid.startswith(place)), 1)
        if zlib.crc32(item.nodeid.encode()) % many:
            item.add_marker(pytest.mark.torture)
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
