# SPDX-License-Identifier: MIT
"""A verb is a script: it reads or writes, and has the script's arguments, result and description."""

import inspect

import pytest

from redrive.engines.sql.recovery.ledger import SqlLedger
from redrive.engines.sql.runner import run_sqlite
from redrive.engines.sql.script import now
from redrive.engines.sql.verbs import SqlStore, reads, writes
from redrive.recovery.ledger import Ledger


def later(seconds, *, more=0.0):
    """Return a later time."""
    return (yield from now()) + seconds + more


class Later(SqlStore):
    """A port with two verbs."""

    find = reads(later)
    store = writes(later)


class Fake:
    """A database that begins every transaction twice, as one that could not be committed is begun again."""

    def __init__(self):
        self.calls = []

    async def open(self):
        self.calls.append("open")

    async def close(self):
        self.calls.append("close")

    async def run(self, script):
        self.calls.append("run")
        run_sqlite(None, script(), 1.0)
        return run_sqlite(None, script(), 2.0)

    async def look(self, script):
        self.calls.append("look")
        return run_sqlite(None, script(), 3.0)


async def test_a_verb_reads_or_writes_with_the_arguments_of_its_script():
    database = Fake()
    port = Later(database)
    assert await port.find(10.0, more=0.5) == 13.5
    assert await port.store(10.0) == 12.0
    assert await port.now() == 3.0
    assert database.calls == ["look", "run", "look"]


def test_a_verb_is_described_by_its_script():
    assert Later.find.__doc__ == "Return a later time."


@pytest.mark.parametrize(("is_shared", "calls"), [(False, ["open", "close"]), (True, [])])
async def test_a_shared_database_is_opened_and_closed_by_its_owner(is_shared, calls):
    port = Later(Fake(), is_shared=is_shared)
    await port.open()
    await port.close()
    assert port.database.calls == calls


def test_the_ledger_has_every_verb_of_its_port_and_no_other():
    def verbs(of):
        return {name for name in dir(of) if not name.startswith("_")}

    assert verbs(SqlLedger) == verbs(Ledger)
    ledger = SqlLedger(Fake())
    assert all(inspect.iscoroutinefunction(getattr(ledger, name)) for name in verbs(Ledger))


def test_a_script_has_the_arguments_that_the_port_promises():
    for name, promised in inspect.getmembers(Ledger, inspect.isfunction):
        if name.startswith("_"):
            continue
        script = inspect.getclosurevars(getattr(SqlLedger, name)).nonlocals.get("script")
        if script is not None:
            wanted = list(inspect.signature(promised).parameters.values())[1:]
            given = list(inspect.signature(script).parameters.values())
            assert [(each.name, each.kind, each.default) for each in given] == [
                (each.name, each.kind, each.default) for each in wanted
            ], name
