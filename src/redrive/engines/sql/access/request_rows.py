# SPDX-License-Identifier: MIT
"""Requests that are made once for a key, in SQL."""

from redrive.access.store import RequestState
from redrive.engines.sql.script import Script, Sql, now
from redrive.errors import RequestRepeated


def begin_request(name: str, working_s: float, kept_s: float) -> Script[RequestState]:
    """Write down that a request is being worked on, unless it is already, or is done."""
    time = yield from now()
    yield Sql("DELETE FROM @.access_requests WHERE begun_at < ?", [time - kept_s])
    begun = yield Sql(
        "INSERT INTO @.access_requests AS r (name, begun_at) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET begun_at = excluded.begun_at"
        " WHERE r.done_at IS NULL AND r.begun_at < ? RETURNING name",
        [name, time, time - working_s],
    )
    if begun:
        return RequestState.BEGUN
    rows = yield Sql("SELECT done_at FROM @.access_requests WHERE name = ?", [name])
    return RequestState.DONE if rows and rows[0]["done_at"] is not None else RequestState.UNDER_WAY


def finish_request(name: str) -> Script[None]:
    """Write down that a request is done."""
    time = yield from now()
    yield Sql("UPDATE @.access_requests SET done_at = ? WHERE name = ?", [time, name])


def forget_request(name: str) -> Script[None]:
    """Forget a request that came to nothing."""
    yield Sql("DELETE FROM @.access_requests WHERE name = ? AND done_at IS NULL", [name])


def do_request(name: str, key: str, kept_s: float) -> Script[None]:
    """Write down that a request is done, in the transaction that does it; if it was done before, nothing is done."""
    time = yield from now()
    yield Sql("DELETE FROM @.access_requests WHERE begun_at < ?", [time - kept_s])
    first = yield Sql(
        "INSERT INTO @.access_requests (name, begun_at, done_at) VALUES (?, ?, ?)"
        " ON CONFLICT (name) DO NOTHING RETURNING name",
        [name, time, time],
    )
    if not first:
        raise RequestRepeated(key)
