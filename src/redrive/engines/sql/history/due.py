# SPDX-License-Identifier: MIT
"""Whether the history needs a round of upkeep, in SQL. Every engine asks this often, so it loads nothing else."""

from redrive.engines.sql.history.tallies import minute_of
from redrive.engines.sql.script import Script, Sql, now

LONG_AGO_S = 3_600
"""A minute that is this far in the future was noted before the clock was set back."""

time = now


def is_due() -> Script[bool]:
    """Say whether no process has noted the depths of this minute yet. A hint: ``rounds.note`` decides."""
    minute = minute_of((yield from now()))
    rows = yield Sql("SELECT gauged FROM @.history_state")
    return all(gauged < minute or gauged > minute + LONG_AGO_S for (gauged,) in rows)


def has_operations() -> Script[bool]:
    """Say whether there are operations under way, or that ended in the last hour."""
    since = (yield from now()) - LONG_AGO_S
    return bool((yield Sql("SELECT 1 FROM @.operations WHERE ended_at IS NULL OR ended_at > ? LIMIT 1", [since])))


def has_routes() -> Script[bool]:
    """Say whether there are routes, whose lag is noted."""
    return bool((yield Sql("SELECT 1 FROM @.routes LIMIT 1")))
