# SPDX-License-Identifier: MIT
"""What a database still needs, and when it is not one of ours."""

import pytest

from redrive.engines.sql.migrations import pending
from redrive.errors import SchemaMismatch

ALL = (("0001_a", "CREATE a"), ("0002_b", "CREATE b"), ("0003_c", ""))


@pytest.mark.parametrize("done", [0, 1, 2, 3])
def test_what_was_not_done_is_still_to_be_done(done):
    found = pending(ALL, [name for name, _ in ALL[:done]])
    assert [(each.name, each.script) for each in found] == list(ALL[done:])
    assert [each.number for each in found] == list(range(done + 1, 4))


def test_a_newer_database_wants_a_newer_redrive():
    with pytest.raises(SchemaMismatch, match="newer Redrive") as caught:
        pending(ALL, ["0001_a", "0002_b", "0003_c", "0004_d"])
    assert (caught.value.found, caught.value.known) == (4, 3)


@pytest.mark.parametrize(
    "done", [["0001_x"], ["0002_b"], ["0001_a", "0003_c"], ["0001_a", "0002_b", "0003_x", "0004_d"]]
)
def test_a_database_of_other_migrations_is_refused(done):
    with pytest.raises(SchemaMismatch, match=f"its migrations are {', '.join(done)}"):
        pending(ALL, done)
