# SPDX-License-Identifier: MIT
"""A row of the table is read as what it is."""

from datetime import UTC, datetime

from redrive.broker import Lock, State
from redrive.engines import stored
from redrive.engines.sqlite import rows


def test_due_means_another_thing_in_every_state():
    row = [7, 1.0, 1e300, "id", None, None, b"x", State.READY, None, 2]
    (locked,) = rows.locked([tuple(row)], "orders", State.LOCKED, 99, 60.0)
    assert (locked.state, locked.delivery_count) == (State.LOCKED, 3)
    assert (locked.lock, locked.locked_until, locked.due_at) == (
        Lock("orders", 7, 99),
        datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
        None,
    )
    assert locked.expires_at.year == 9_999
    row[7], row[8] = State.SCHEDULED, 60.0
    scheduled = stored.seen(tuple(row), "orders")
    assert (scheduled.lock, scheduled.locked_until, scheduled.due_at) == (
        None,
        None,
        datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
    )
