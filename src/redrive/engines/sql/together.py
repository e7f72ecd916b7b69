# SPDX-License-Identifier: MIT
"""Runs several scripts in one transaction, in step: what is equal in their steps is asked once for all of them.

If one of them fails, all have failed: the transaction is to be rolled back, and each is to be run by itself.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from redrive.engines.sql.dialects import statement
from redrive.engines.sql.runner import Driver, SqliteDriver, finished, run
from redrive.engines.sql.script import Inserts, Keyed, Now, Row, Script, Step, TableColumns


class SameKey(Exception):
    """Two scripts are about the same thing: they cannot be run together."""


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
    inserts: dict[TableColumns, list[Sequence[object]]] = {}
    for place, step in steps.items():
        if isinstance(step, Keyed):
            keyed.setdefault(step.text, {})[place] = step
        elif isinstance(step, Inserts):
            answers[place] = ()
            for table, rows in step.rows.items():
                inserts.setdefault(table, []).extend(rows)
        elif isinstance(step, Now):
            answers[place] = [(await driver.now(),)]
        else:
            answers[place] = await run(_lone(step), driver)
    for text, asked in keyed.items():
        answers |= await _keyed_answers(text, asked, driver)
    if inserts:
        await driver.insert(inserts)
    return answers


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
