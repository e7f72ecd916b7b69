# SPDX-License-Identifier: MIT
"""Leases in SQL: who may work on an operation or in a lane, shown by whatever changes a batch; and who serves."""

from redrive.clock import utc
from redrive.engines.sql.script import Script, Sql
from redrive.errors import LeaseLost
from redrive.recovery.records import Lease, ServiceInfo


def hold(now: float, name: str, session: str, seconds: float) -> Script[Lease | None]:
    """Take a lease that is free, or ours, or has ended.

    One that lasts longer than any can was taken before the clock was set back. Whoever has it and lives soon renews
    it; so it is shortened to what it can be, and never taken before that is over.
    """
    yield Sql(
        "UPDATE @.leases SET until = ? WHERE name = ? AND until > ? AND session <> ?",
        [now + seconds, name, now + seconds, session],
    )
    rows = yield Sql(
        "INSERT INTO @.leases AS l (name, session, token, until) VALUES (?, ?, 1, ?)"
        " ON CONFLICT (name) DO UPDATE SET session = excluded.session, token = l.token + 1, until = excluded.until"
        " WHERE l.until <= ? OR l.session = excluded.session RETURNING token",
        [name, session, now + seconds, now],
    )
    return Lease(name, session, rows[0][0]) if rows else None


def renew(now: float, lease: Lease, seconds: float) -> Script[None]:
    """Lengthen a lease that has not ended."""
    yield Sql(
        "UPDATE @.leases SET until = ? WHERE name = ? AND token = ? AND until > ?",
        [now + seconds, lease.name, lease.token, now],
    )


def release(now: float, lease: Lease) -> Script[None]:
    """Give a lease back; its row stays, so that no token comes twice."""
    yield Sql("UPDATE @.leases SET until = ? WHERE name = ? AND token = ?", [now, lease.name, lease.token])


def present(now: float, session: str, host: str, seconds: float) -> Script[None]:
    """Note that a process serves, and forget those that have not been heard of, also if the clock was set back."""
    yield Sql("DELETE FROM @.services WHERE until <= ?", [now])
    yield Sql("UPDATE @.services SET until = ? WHERE until > ?", [now + seconds, now + seconds])
    yield Sql(
        "INSERT INTO @.services (session, host, since, until) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (session) DO UPDATE SET until = excluded.until",
        [session, host, now, now + seconds],
    )


def absent(_now: float, session: str) -> Script[None]:
    """Note that a process serves no longer."""
    yield Sql("DELETE FROM @.services WHERE session = ?", [session])


def services(now: float) -> Script[list[ServiceInfo]]:
    """Return the processes that serve, the oldest first."""
    rows = yield Sql("SELECT session, host, since FROM @.services WHERE until > ? ORDER BY since, session", [now])
    return [ServiceInfo(session=row[0], host=row[1], since=utc(row[2])) for row in rows]


def check(now: float, lease: Lease, lock: str = " @lock") -> Script[None]:
    """Refuse to go on with a lease that is not ours any more."""
    rows = yield Sql(
        f"SELECT 1 FROM @.leases WHERE name = ? AND token = ? AND until > ?{lock}", [lease.name, lease.token, now]
    )
    if not rows:
        raise LeaseLost(f"{lease.name} has gone to another process, or the time for it was over")
