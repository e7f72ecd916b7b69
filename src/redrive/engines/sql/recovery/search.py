# SPDX-License-Identifier: MIT
"""Text search in failed messages in SQL: through one part of them at a time."""

from dataclasses import replace

from redrive.clock import utc
from redrive.engines.sql.recovery.failures import ORDERS, SUMMARY, beyond, summary_of
from redrive.engines.sql.recovery.filter_sql import condition
from redrive.engines.sql.script import Script, Sql
from redrive.recovery.port import START, Filter, Found, Order, Place, Status

_ANY = frozenset(Status)


def search(
    chosen: Filter, *, after: Place = START, limit: int = 100, order: Order = Order.OLDEST, part: int = 1_000
) -> Script[Found]:
    """Look through so many of the failed messages that match the other terms, for those that contain the text."""
    by = ORDERS[order].by
    known = yield from condition(replace(chosen, text=None))
    inside = yield from condition(Filter(status=_ANY, text=chosen.text))
    found = beyond(known, after, order)
    ends = yield Sql(
        f"SELECT f.number, f.failed_at FROM @.failures f WHERE {found.text} ORDER BY {by} LIMIT 1 OFFSET ?",
        [*found.values, part - 1],
    )
    numbers = f"SELECT f.number FROM @.failures f WHERE {found.text} ORDER BY {by} LIMIT ?"
    rows = yield Sql(
        f"{SUMMARY} WHERE f.number IN ({numbers}) AND {inside.text} ORDER BY {by} LIMIT ?",
        [*found.values, part, *inside.values, limit],
    )
    messages = [summary_of(row) for row in rows]
    if len(messages) == limit:
        return Found(messages, messages[-1].place, is_over=False)
    for number, failed_at in ends:
        return Found(messages, Place(number, utc(failed_at)), is_over=False)
    return Found(messages, messages[-1].place if messages else after, is_over=True)
