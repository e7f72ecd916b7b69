# SPDX-License-Identifier: MIT
"""The values by which failures are counted, in SQL: from the table of counts only."""

from redrive.engines.sql.recovery.filter_sql import condition
from redrive.engines.sql.script import Script, Sql, plain
from redrive.recovery.port import Filter, KindValue

_COLUMNS = {"queue": "queue", "type": "message_type", "exception": "exception_type", "group": "exception_group"}
_SHORTEST_ID = 4


def kind_values(key: str, chosen: Filter, part: str, limit: int) -> Script[list[KindValue]]:
    """Return the values of a key that contain a part, those with most failures first."""
    found = yield from condition(chosen)
    column = f"f.{_COLUMNS[key]}"
    found = found.also(f"f.n > 0 AND {column} <> ''")
    if (part := plain(part)) and key == "group":
        begins = f" OR substr({column}, 1, {len(part)}) = ?" if len(part) >= _SHORTEST_ID else ""
        found = found.also(f"(@contains(t.title){begins})", *([part, part] if begins else [part]))
    elif part:
        found = found.also(f"@contains({column})", part)
    title = "coalesce(max(t.title), '')" if key == "group" else "''"
    titles = " LEFT JOIN @.groups t ON t.id = f.exception_group" if key == "group" else ""
    rows = yield Sql(
        f"SELECT {column} AS value, CAST(sum(f.n) AS bigint) AS n, {title} AS title FROM @.failure_counts f{titles}"
        f" WHERE {found.text} GROUP BY {column} ORDER BY 2 DESC, 1 LIMIT ?",
        [*found.values, limit],
    )
    return [KindValue(value=row["value"], count=row["n"], title=row["title"]) for row in rows]
