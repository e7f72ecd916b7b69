# SPDX-License-Identifier: MIT
"""Runs several scripts in one transaction, in step: what is equal in their steps is asked once for all of them.

If one of them fails, all have failed: the transaction is to be rolled back, and each is to be run by itself.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from redrive.engines.sql.dialects import postgres_given, statement
from redrive.engines.sql.runner import Driver, SqliteDriver, finished, parts_inserting, run
from redrive.engines.sql.script import DONE, Change, Guarded, Inserts, Keyed, Now, Row, Script, Step, TableColumns


class SameKey(Exception):
    """Two scripts are about the same thing: they cannot be run together."""


class OtherRow(Exception):
    """A row that a script is to change is not as expected: it has to be run by itself to find out why."""


async def run_together(scripts: Sequence[Script[Any]], driver: Driver) -> list[Any]:
    """Run scripts inside a transaction; return their results."""
    if len(scripts) == 1:
        return [await run(scripts[0], driver)]
    results: list[Any] = [None] * len(scripts)
    running = dict(enumerate(scripts))
    answers: Mapping[int, Sequence[Row]] = {}
    while running:
        steps: dict[int, Step] = {}
        for place, script in list(running.items()):
            try:
                steps[place] = script.send(answers[place]) if place in answers else next(script)
            except StopIteration as end:
                results[place] = end.value
                del running[place]
        answers = await _answers(steps, driver)
    return results


def run_sqlite_together(connection: sqlite3.Connection, scripts: Sequence[Script[Any]], time: float) -> list[Any]:
    """Run scripts on a connection with a transaction that began at that time; return their results."""
    return finished(run_together(scripts, SqliteDriver(connection, time)))


async def _answers(steps: Mapping[int, Step], driver: Driver) -> dict[int, Sequence[Row]]:
    answers: dict[int, Sequence[Row]] = {}
    keyed: dict[str, dict[int, Keyed]] = {}
    guarded = {place: step for place, step in steps.items() if isinstance(step, Guarded)}
    inserts = await _changed(guarded.values(), driver)
    for place, step in steps.items():
        if place in guarded:
            answers[place] = DONE
        elif isinstance(step, Keyed):
            keyed.setdefault(step.text, {})[place] = step
        elif isinstance(step, Inserts):
            answers[place] = ()
            _gather(step.rows, inserts)
        elif isinstance(step, Now):
            answers[place] = [(await driver.now(),)]
        else:
            answers[place] = await run(_lone(step), driver)
    for text, asked in keyed.items():
        answers |= await _keyed_answers(text, asked, driver)
    if inserts:
        await driver.insert(inserts)
    return answers


async def _changed(steps: Iterable[Guarded], driver: Driver) -> dict[TableColumns, list[Sequence[object]]]:
    """Make the changes of several steps; return the rows that are to be inserted then."""
    changes, inserts = together_at_once(steps)
    for change, rows in changes.items():
        if not await driver.change_all(change, rows):
            raise OtherRow
    return inserts


def _gather(
    rows: Mapping[TableColumns, Sequence[Sequence[object]]], into: dict[TableColumns, list[Sequence[object]]]
) -> None:
    for table, values in rows.items():
        into.setdefault(table, []).extend(values)


def _lone(step: Step) -> Script[Sequence[Row]]:
    return (yield step)


async def _keyed_answers(text: str, asked: Mapping[int, Keyed], driver: Driver) -> dict[int, Sequence[Row]]:
    places = {step.key: place for place, step in asked.items()}
    if len(places) != len(asked):
        raise SameKey
    rows = await driver.fetch_each(
        statement(driver.dialect, text, driver.prefix), [step.values for step in asked.values()]
    )
    answers: dict[int, Sequence[Row]] = {place: [] for place in asked}
    found: dict[int, list[Row]] = {}
    for row in rows:
        key, *_ = row
        found.setdefault(places[key], []).append(row)
    return {**answers, **found}


# --- in one statement


def together_at_once(
    steps: Iterable[Guarded],
) -> tuple[dict[Change, list[Sequence[object]]], dict[TableColumns, list[Sequence[object]]]]:
    """Return the values of equal changes, and the new rows of each table, of several steps."""
    changes: dict[Change, list[Sequence[object]]] = {}
    inserts: dict[TableColumns, list[Sequence[object]]] = {}
    for step in steps:
        for change, values in step.changes:
            changes.setdefault(change, []).append(values)
        for table, rows in step.rows.items():
            if rows:
                inserts.setdefault(table, []).extend(rows)
    return changes, inserts


@lru_cache(maxsize=100)
def at_once(changes: tuple[Change, ...], tables: tuple[TableColumns, ...], prefix: str, call: str) -> str:
    """Return a statement in PostgreSQL's SQL that makes changes, inserts rows and calls a function, or does nothing.

    Each of its rows begins with those of the function, which are all NULL if it has none; and if a row that is to be
    changed is not as expected, it divides by zero.

    Args:
        changes: the changes; the values after those of the call are lists for their columns.
        tables: the tables that get rows; the values after these are lists for their columns.
        prefix: the prefix of Redrive's tables.
        call: the call; its first value is the time, or NULL for that of the database.
    """
    first = call.count("$") + 1
    parts = [f"now AS MATERIALIZED (SELECT {prefix}instant($1) AS time)"]
    checks = ["1"]
    for place, change in enumerate(changes):
        text = postgres_given(change.text, change.columns, prefix, first)
        parts.append(f"c{place} (found) AS ({text})")
        checks.append(f"((SELECT count(*) FROM c{place} WHERE found <> '') = cardinality(${first}))::integer")
        first += len(change.columns)
    inserting, _ = parts_inserting(tables, prefix, first)
    parts += [*inserting, f"checked AS MATERIALIZED (SELECT 1 / ({' * '.join(checks)}) AS is_good)"]
    return f"WITH {', '.join(parts)} SELECT e.*, checked.is_good FROM checked LEFT JOIN LATERAL ({call}) AS e ON true"
