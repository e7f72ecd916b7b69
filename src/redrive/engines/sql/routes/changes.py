# SPDX-License-Identifier: MIT
"""Routes and their changes in SQL.

A change takes the number after the last one. The primary key lets one process have it: another one that wants it waits
until the first has committed, and then finds it taken. So numbers are seen in their order, and no change is based on
routes that have changed meanwhile.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from redrive.clock import utc
from redrive.engines.sql.script import Many, Row, Script, Sql, insert, now, plain, scalar, values_of
from redrive.routes.ledger import StoredRoute


class _Columns(NamedTuple):
    """A row of ``routes``, and of ``route_changes`` without its number."""

    application: str
    name: str
    version: int
    state: str
    definition: str
    earlier_queues: str
    until: float | None
    reason: str
    changed_at: float


_LIST = ", ".join(_Columns._fields)
_CHANGE = insert("route_changes", ["number", *_Columns._fields])
_FIRST_CHANGE = f"{_CHANGE} ON CONFLICT (number) DO NOTHING RETURNING number"
_STORE = (
    f"{insert('routes', _Columns._fields)} ON CONFLICT (application, name) DO UPDATE SET"
    f" {', '.join(f'{column} = excluded.{column}' for column in _Columns._fields[2:])}"
)


def routes(*, with_removed: bool = False) -> Script[list[StoredRoute]]:
    """Return the routes as they are now, in order of applications and names."""
    where = "" if with_removed else " WHERE state <> 'removed'"
    rows = yield Sql(f"SELECT {_LIST} FROM @.routes{where}")
    # sorted here: each database has an order of its own for letters
    return sorted((_route_of(row) for row in rows), key=lambda route: (route.application, route.name))


def versions(application: str, name: str) -> Script[list[StoredRoute]]:
    """Return everything that a route has been, the newest first."""
    rows = yield Sql(
        f"SELECT {_LIST} FROM @.route_changes WHERE application = ? AND name = ? ORDER BY number DESC",
        [plain(application), plain(name)],
    )
    return [_route_of(row) for row in rows]


def change(routes: Sequence[StoredRoute], expected: int | None = None) -> Script[int | None]:
    """Store routes; return the new revision number, or None if they are not based on the last one."""
    time = yield from now()
    rows = [_columns_of(route, time) for route in routes]
    while True:
        last: int = yield from scalar(Sql("SELECT coalesce(max(number), 0) FROM @.route_changes"))
        if expected is not None and expected != last:
            return None
        numbered = [(number, *row) for number, row in enumerate(rows, last + 1)]
        if not numbered or (yield Sql(_FIRST_CHANGE, numbered[0])):
            break  # else another process has had this number
    yield Many(_CHANGE, numbered[1:])
    yield Many(_STORE, rows)
    return last + len(rows)


def _columns_of(route: StoredRoute, time: float) -> _Columns:
    return _Columns(
        application=plain(route.application),
        name=plain(route.name),
        version=route.version,
        state=route.state,
        definition=plain(route.definition),
        earlier_queues=json.dumps(route.earlier_queues),
        until=None if route.until is None else route.until.timestamp(),
        reason=plain(route.reason),
        changed_at=time,
    )


def _route_of(row: Row) -> StoredRoute:
    until = row["until"]
    return StoredRoute(
        **values_of(
            row,
            earlier_queues=tuple(json.loads(row["earlier_queues"])),
            until=None if until is None else utc(until),
            changed_at=utc(row["changed_at"]),
        )
    )
