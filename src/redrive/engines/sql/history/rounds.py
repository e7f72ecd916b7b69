# SPDX-License-Identifier: MIT
"""What upkeep does for the history, in SQL: noting depths once a minute, and rolling up what is old."""

from collections.abc import Sequence

from redrive.engines.sql.history import samples
from redrive.engines.sql.history.due import LONG_AGO_S
from redrive.engines.sql.history.tallies import ADD, MINUTE, RAISE, minute_of
from redrive.engines.sql.script import Many, Script, Sql, now, plain
from redrive.history import Gauge, Retention, TallyRow, metrics
from redrive.history.buckets import DAY, next_steps, rolled_up


def note(gauges: Sequence[Gauge]) -> Script[bool]:
    """Note depths for this minute; False, and nothing is noted, if another process has done so.

    What is 0 has no row. A minute far in the future was noted before the clock was set back.
    """
    minute = minute_of((yield from now()))
    won = yield Sql(
        "INSERT INTO @.history_state AS s (one, gauged) VALUES (1, ?)"
        " ON CONFLICT (one) DO UPDATE SET gauged = excluded.gauged WHERE s.gauged < ? OR s.gauged > ? RETURNING gauged",
        [minute, minute, minute + LONG_AGO_S],
    )
    if not won:
        return False
    rows = [
        (each.topic, plain(each.name), each.metric, MINUTE, minute, each.value) for each in gauges if each.value > 0
    ]
    yield Many(RAISE, sorted(rows))
    yield Many(ADD, [(metrics.STORE, "", metrics.GAUGED, MINUTE, minute, 1)])
    return True


def roll_up(limit: int = 2_000) -> Script[bool]:
    """Add rows that are old enough to those of longer spans, and remove them; False if more are due.

    A row is read, removed and added to the other in one transaction, and locked in between: so whatever others do the
    same, and whenever a process dies, no number is lost or there twice.
    """
    time = yield from now()
    retention = yield from kept()
    ages = {MINUTE: retention.minutes, next_steps()[0][1]: retention.hours}
    taken = 0
    for step, longer in next_steps():
        # whole spans only, so that hours and days are complete when they are made
        before = int((time - ages[step]) // longer) * longer
        rows = yield Sql(
            "SELECT topic, name, metric, step, began, n FROM @.tallies WHERE step = ? AND began < ?"
            " ORDER BY began, topic, name, metric LIMIT ? @lock",
            [step, before, limit],
        )
        old = [TallyRow(*row) for row in rows]
        yield Many(_REMOVE, [(*row[:3], row.step, row.began) for row in old])
        made = rolled_up(old, longer)
        yield Many(ADD, [row for row in made if row.metric not in metrics.GAUGES])
        yield Many(RAISE, [row for row in made if row.metric in metrics.GAUGES])
        taken = max(taken, len(old))
    yield from _forget(int(time - retention.days), limit)
    return taken < limit


_REMOVE = "DELETE FROM @.tallies WHERE topic = ? AND name = ? AND metric = ? AND step = ? AND began = ?"


def _forget(before: int, limit: int) -> Script[None]:
    """Remove days that are too old."""
    rows = yield Sql(
        "SELECT topic, name, metric, step, began FROM @.tallies WHERE step = ? AND began < ?"
        " ORDER BY began, topic, name, metric LIMIT ? @lock",
        [DAY, before, limit],
    )
    yield Many(_REMOVE, [tuple(row) for row in rows])


def forget_samples() -> Script[None]:
    """Remove the samples of operations that ended long ago."""
    retention = yield from kept()
    yield from samples.forget((yield from samples.old(retention.hours)))


def kept() -> Script[Retention]:
    """Return how long the history is kept."""
    rows = yield Sql("SELECT minutes, hours, days FROM @.history_state WHERE minutes IS NOT NULL")
    return next((Retention(minutes=minutes, hours=hours, days=days) for minutes, hours, days in rows), Retention())


def moment() -> Script[tuple[float, Retention]]:
    """Return the time, and how long the history is kept."""
    return (yield from now()), (yield from kept())


def keep(retention: Retention) -> Script[None]:
    """Say how long the history is kept from now on."""
    yield Sql(
        "INSERT INTO @.history_state (one, gauged, minutes, hours, days) VALUES (1, 0, ?, ?, ?) ON CONFLICT (one)"
        " DO UPDATE SET minutes = excluded.minutes, hours = excluded.hours, days = excluded.days",
        [int(retention.minutes), int(retention.hours), int(retention.days)],
    )
