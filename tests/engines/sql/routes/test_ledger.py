# SPDX-License-Identifier: MIT
"""The ledger of routes has the verbs of its port, and finds what it wants by an index."""

import inspect
import sqlite3

import pytest

from redrive.engines.registry import route_ledger_in
from redrive.engines.sql import runner
from redrive.engines.sql.routes.ledger import SqlRouteLedger
from redrive.engines.sqlite import SqliteEngine
from redrive.routes.ledger import RouteLedger, StoredRoute


def verbs(of):
    return {name for name in dir(of) if not name.startswith("_")}


def test_the_ledger_has_every_verb_of_its_port_and_no_other():
    assert verbs(SqlRouteLedger) == verbs(RouteLedger) | {"now"}
    assert all(inspect.iscoroutinefunction(getattr(SqlRouteLedger, name)) for name in verbs(RouteLedger))


@pytest.mark.parametrize("name", sorted(verbs(RouteLedger) - {"open", "close"}))
def test_a_script_has_the_arguments_that_the_port_promises(name):
    script = inspect.getclosurevars(getattr(SqlRouteLedger, name)).nonlocals["script"]
    promised = list(inspect.signature(getattr(RouteLedger, name)).parameters.values())[1:]
    given = inspect.signature(script).parameters.values()
    assert [(each.name, each.kind, each.default) for each in given] == [
        (each.name, each.kind, each.default) for each in promised
    ]


async def test_a_shared_database_stays_open(tmp_path):
    engine = SqliteEngine(tmp_path / "x.db")
    await engine.open()
    ledger = route_ledger_in(engine, is_shared=True)
    await ledger.open()
    await ledger.claim("default/orders", "k", "one", 60)
    await ledger.close()
    assert await engine.inspect() == []
    await engine.close()


async def test_no_statement_reads_all_claims_or_all_changes(tmp_path, monkeypatch):
    seen = []
    real = runner.statement
    monkeypatch.setattr(runner, "statement", lambda *how: seen.append(real(*how)) or seen[-1])
    ledger = route_ledger_in(SqliteEngine(tmp_path / "x.db"), is_shared=False)
    await ledger.open()
    await ledger.change([StoredRoute(application="a", name="n", version=1, state="running", definition="{}")])
    await ledger.versions("a", "n")
    await ledger.revision()
    await ledger.claim("a/n", "k", "one", 0)
    await ledger.release("a/n", "k", "two")
    await ledger.forget_claims()
    await ledger.close()
    connection = sqlite3.connect(tmp_path / "x.db")
    for text in seen:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", [None] * text.count("?"))]
        assert [line for line in plan if "SCAN redrive_route_c" in line or "TEMP B-TREE" in line] == [], text
    connection.close()
