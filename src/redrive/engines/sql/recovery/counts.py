# SPDX-License-Identifier: MIT
"""Counts of failed messages in SQL: from the table of counts where the filter allows it, from the rows otherwise."""

from redrive.clock import utc
from redrive.engines.sql.recovery.audit import counts_of_notes
from redrive.engines.sql.recovery.counts_schema import FILL_COUNTS, KIND
from redrive.engines.sql.recovery.failure_records import next_change
from redrive.engines.sql.recovery.filter_sql import Condition, condition
from redrive.engines.sql.recovery.group_states import states_of
from redrive.engines.sql.script import Script, Sql, scalar
from redrive.recovery.port import CountDifference, Filter, GroupInfo, Status

_KIND = ", ".join(KIND)


def count(chosen: Filter, *, most: int | None = None) -> Script[int]:
    """Count failed messages, and no more than one beyond the most."""
    found = yield from condition(chosen)
    if most is not None and not chosen.is_about_kinds:
        first = f"SELECT 1 FROM @.failures f WHERE {found.text} LIMIT ?"
        some: int = yield from scalar(Sql(f"SELECT count(*) FROM ({first}) AS first", [*found.values, most + 1]))
        return some
    number: int = yield from scalar(Sql(f"SELECT {count_of(chosen, found)}", found.values))
    return number


def count_of(chosen: Filter, found: Condition) -> str:
    """Return the expression that counts the failed messages of a filter, whose condition is given."""
    if chosen.is_about_kinds:  # its columns have the same names in both tables
        return f"(SELECT CAST(coalesce(sum(f.n), 0) AS bigint) FROM @.failure_counts f WHERE {found.text})"
    return f"(SELECT count(*) FROM @.failures f WHERE {found.text})"


def count_by_status(chosen: Filter) -> Script[dict[Status, int]]:
    """Count failed messages of each status."""
    found = yield from condition(chosen)
    many, table = ("CAST(sum(f.n) AS bigint)", "failure_counts") if chosen.is_about_kinds else ("count(*)", "failures")
    rows = yield Sql(f"SELECT f.status, {many} FROM @.{table} f WHERE {found.text} GROUP BY f.status", found.values)
    counted = {Status(status): number for status, number in rows}
    return {status: counted.get(status, 0) for status in Status if status in chosen.status}


# --- groups

_GROUP_COLUMNS = {"exception": "f.exception_group", "queue": "f.queue", "type": "f.message_type"}
_FROM_ROWS = "count(*) AS count, min(f.failed_at) AS first_failed_at, max(f.failed_at) AS last_failed_at"
_FROM_COUNTS = (
    "CAST(sum(f.n) AS bigint) AS count, min(f.first_failed_at) AS first_failed_at,"
    " max(f.last_failed_at) AS last_failed_at"
)


def groups(
    classifier: str, chosen: Filter, *, after: str | None = None, limit: int = 100, largest_first: bool = False
) -> Script[list[GroupInfo]]:
    """Return groups in order of their ids, or the largest first."""
    found = yield from condition(chosen)
    id_ = _GROUP_COLUMNS.get(classifier, "g.group_id")
    figures, source = _FROM_ROWS, "@.failures f"
    if classifier not in _GROUP_COLUMNS:
        source += " JOIN @.failure_groups g ON g.failure = f.number JOIN @.groups t ON t.id = g.group_id"
        found = found.also("t.classifier = ?", classifier)
    elif chosen.is_about_kinds:
        figures, source = _FROM_COUNTS, "@.failure_counts f"
        found = found.also("f.n > 0")
    if after is not None:
        found = found.also(f"{id_} > ?", after)
    order = f"2 DESC, {id_}" if largest_first else id_
    rows = yield Sql(
        f"SELECT {id_} AS id, {figures} FROM {source} WHERE {found.text} GROUP BY {id_} ORDER BY {order} LIMIT ?",
        [*found.values, limit],
    )
    titles = yield from _titles([row["id"] for row in rows])
    noted = yield from counts_of_notes([f"group:{row['id']}" for row in rows])
    states = (yield from states_of([row["id"] for row in rows])) if classifier not in ("queue", "type") else {}
    return [
        GroupInfo(
            id=row["id"],
            title=titles.get(row["id"]) or row["id"],
            classifier=classifier,
            count=row["count"],
            first_failed_at=utc(row["first_failed_at"]),
            last_failed_at=utc(row["last_failed_at"]),
            notes=noted.get(f"group:{row['id']}", 0),
            state=states.get(row["id"]),
        )
        for row in rows
    ]


def _titles(ids: list[str]) -> Script[dict[str, str]]:
    rows = yield Sql("SELECT id, title FROM @.groups WHERE id IN @texts", [ids])
    return dict(rows)


# --- whether the counts are right

_DIFFERENCES = (
    f"SELECT {_KIND}, CAST(sum(counted) AS bigint) AS counted, CAST(sum(rows) AS bigint) AS rows FROM"
    f" (SELECT {_KIND}, 0 AS counted, 1 AS rows, failed_at AS first_at, failed_at AS last_at, NULL AS first_known,"
    f" NULL AS last_known FROM @.failures UNION ALL SELECT {_KIND}, n, 0, NULL, NULL, first_failed_at, last_failed_at"
    f" FROM @.failure_counts) kinds GROUP BY {_KIND}"
    " HAVING sum(counted) <> sum(rows) OR min(first_at) < min(first_known) OR max(last_at) > max(last_known)"
    f" ORDER BY {_KIND}"
)


def check_counts() -> Script[list[CountDifference]]:
    """Compare the counts with the rows; return what differs."""
    rows = yield Sql(_DIFFERENCES)
    return [
        CountDifference(
            status=Status(row["status"]),
            group=row["exception_group"],
            queue=row["queue"],
            message_type=row["message_type"],
            exception_type=row["exception_type"],
            counted=row["counted"],
            rows=row["rows"],
        )
        for row in rows
    ]


def repair_counts() -> Script[list[CountDifference]]:
    """Count all failed messages anew, if a count is wrong; return what differed."""
    yield from next_change()
    differences = yield from check_counts()
    if differences:
        yield Sql("DELETE FROM @.failure_counts")
        yield Sql(FILL_COUNTS)
    return differences
