# SPDX-License-Identifier: MIT
"""What the history is asked, in SQL."""

from collections.abc import Sequence

from redrive.engines.sql.script import Script, Sql
from redrive.history import Line, metrics


def numbers(topic: str, metric: str, start: int, name: str | None) -> Script[list[tuple[int, int]]]:
    """Return when each stored span began since a time, and its number; of all names together if none is given."""
    one = "" if name is None else " AND name = ?"
    across = "max" if metrics.METRICS[metric].is_age else "sum"
    rows = yield Sql(
        f"SELECT began, {across}(n) AS n FROM @.tallies WHERE topic = ? AND metric = ? AND began >= ?{one}"
        " GROUP BY began ORDER BY began",
        [topic, metric, start, *([] if name is None else [name])],
    )
    return [(began, int(n)) for began, n in rows]


def numbers_by_name(
    topic: str, metric: str, start: int, names: Sequence[str] | None, step: int
) -> Script[list[tuple[str, int, int]]]:
    """Return the same for each name, or for some of them; what began within a step is one number."""
    some = "" if names is None else " AND name IN @texts"
    over_time = "max" if metrics.METRICS[metric].is_gauge else "sum"
    rows = yield Sql(
        f"SELECT name, began / ? AS place, {over_time}(n) AS n FROM @.tallies"
        f" WHERE topic = ? AND metric = ? AND began >= ?{some} GROUP BY 1, 2",
        [step, topic, metric, start, *([] if names is None else [list(names)])],
    )
    return [(name, place * step, int(n)) for name, place, n in rows]


def lines(asked: Sequence[Line]) -> Script[list[list[tuple[str, int, int]]]]:
    """Return the numbers of several lines, as ``numbers_by_name`` does."""
    found: list[list[tuple[str, int, int]]] = []
    for each in asked:
        found.append((yield from numbers_by_name(*each)))  # noqa: PERF401 - a generator cannot yield from a comprehension
    return found


def sums(topic: str, metric: str, start: int, names: Sequence[str]) -> Script[dict[str, int]]:
    """Return what was counted of each name since a time."""
    rows = yield Sql(
        "SELECT name, sum(n) AS n FROM @.tallies WHERE topic = ? AND metric = ? AND began >= ? AND name IN @texts"
        " GROUP BY name",
        [topic, metric, start, list(names)],
    )
    return {name: int(n) for name, n in rows}


def totals(topic: str, start: int, end: int) -> Script[list[tuple[str, str, int]]]:
    """Return what was counted of everything of a topic between two times: name, metric and number."""
    rows = yield Sql(
        "SELECT name, metric, sum(n) AS n FROM @.tallies WHERE topic = ? AND began >= ? AND began < ?"
        " GROUP BY name, metric ORDER BY name, metric",
        [topic, start, end],
    )
    return [(name, metric, int(n)) for name, metric, n in rows]


def sums_of_all(asked: Sequence[tuple[str, str]], start: int) -> Script[dict[tuple[str, str], int]]:
    """Return what was counted of all names together since a time, by topic and metric."""
    either = " OR ".join(["(topic = ? AND metric = ? AND began >= ?)"] * len(asked))  # each of them finds the index
    rows = yield Sql(
        f"SELECT topic, metric, sum(n) AS n FROM @.tallies WHERE {either} GROUP BY topic, metric",
        [value for topic, metric in asked for value in (topic, metric, start)],
    )
    return {(topic, metric): int(n) for topic, metric, n in rows}


def last_counted(topic: str, metric: str, start: int) -> Script[dict[str, int]]:
    """Return, by name, when the last span began in which something was counted, if that was since a time."""
    rows = yield Sql(
        "SELECT name, max(began) AS began FROM @.tallies WHERE topic = ? AND metric = ? AND began >= ? GROUP BY name",
        [topic, metric, start],
    )
    return dict(tuple(row) for row in rows)
