# SPDX-License-Identifier: MIT
"""Leases in SQL: which process may work on an operation or in a lane; and which processes serve."""

from redrive.clock import utc
from redrive.engines.sql.script import Script, Sql, now, scalar
from redrive.errors import LeaseLost
from redrive.recovery.port import Lease, ServiceInfo


def hold(name: str, session: str, seconds: float) -> Script[Lease | None]:
    """Take a lease that is free, has ended, or belongs to the same session.

    A lease with more time left than ``seconds`` was taken before the clock was set back. It is shortened to ``seconds``
    and not taken before that time is over; a live holder renews it by then. The time is read when the row is ours: a
    lease that its holder renewed while this process stood still has more left by an older time, too.
    """
    yield Sql("SELECT 1 FROM @.leases WHERE name = ? @lock", [name])
    time = yield from now()
    yield Sql(
        "UPDATE @.leases SET until = ? WHERE name = ? AND until > ? AND session <> ?",
        [time + seconds, name, time + seconds, session],
    )
    token = yield from scalar(
        Sql(
            "INSERT INTO @.leases AS l (name, session, token, until) VALUES (?, ?, 1, ?)"
            " ON CONFLICT (name) DO UPDATE SET session = excluded.session, token = l.token + 1, until = excluded.until"
            " WHERE l.until <= ? OR l.session = excluded.session RETURNING token",
            [name, session, time + seconds, time],
        )
    )
    return None if token is None else Lease(name, session, token)


def renew(lease: Lease, seconds: float) -> Script[None]:
    """Lengthen a lease that has not ended."""
    time = yield from now()
    yield Sql(
        "UPDATE @.leases SET until = ? WHERE name = ? AND token = ? AND until > ?",
        [time + seconds, lease.name, lease.token, time],
    )


def release(lease: Lease) -> Script[None]:
    """Give a lease back; its row stays, so that no token comes twice."""
    time = yield from now()
    yield Sql("UPDATE @.leases SET until = ? WHERE name = ? AND token = ?", [time, lease.name, lease.token])


def present(session: str, host: str, seconds: float) -> Script[None]:
    """Note that a process serves, and forget those that stopped noting it, also if the clock was set back."""
    yield Sql("SELECT 1 FROM @.services ORDER BY session @lock")  # before the time is read, as in ``hold``
    time = yield from now()
    yield Sql("DELETE FROM @.services WHERE until <= ?", [time])
    yield Sql("UPDATE @.services SET until = ? WHERE until > ?", [time + seconds, time + seconds])
    yield Sql(
        "INSERT INTO @.services (session, host, since, until) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (session) DO UPDATE SET until = excluded.until",
        [session, host, time, time + seconds],
    )


def absent(session: str) -> Script[None]:
    """Note that a process serves no longer."""
    yield Sql("DELETE FROM @.services WHERE session = ?", [session])


def services() -> Script[list[ServiceInfo]]:
    """Return the processes that serve, the oldest first."""
    time = yield from now()
    rows = yield Sql("SELECT session, host, since FROM @.services WHERE until > ? ORDER BY since, session", [time])
    return [ServiceInfo(session=session, host=host, since=utc(since)) for session, host, since in rows]


def check(lease: Lease, lock: str = " @lock") -> Script[None]:
    """Raise ``LeaseLost`` if a lease has ended or gone to another process."""
    time = yield from now()
    rows = yield Sql(
        f"SELECT 1 FROM @.leases WHERE name = ? AND token = ? AND until > ?{lock}", [lease.name, lease.token, time]
    )
    if not rows:
        raise LeaseLost(f"the lease on {lease.name} has ended, or another process has it")
