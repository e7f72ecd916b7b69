# SPDX-License-Identifier: MIT
"""Slow questions: on readers of their own, for a limited time, on each database.

The question is one that no database ever finishes. So nothing here depends on how fast the machine is: what is answered
beside it did not wait for it.
"""

import asyncio

import pytest

from redrive import connect, open_recovery
from redrive.broker.port import Questions, find_ability
from redrive.engines.limited import LimitedDatabase
from redrive.engines.sql.script import Sql, scalar
from redrive.errors import QuestionTooSlow, UsageError
from redrive.retry import Fixed
from redrive.wiring import open_slow_reader
from tests.patience import PATIENCE_S

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT count(*) FROM n"


def endless():
    return scalar(Sql(ENDLESS))


def short():
    return scalar(Sql("SELECT 42"))


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/questions.db"
    url, schema = request.getfixturevalue("postgres_url"), request.getfixturevalue("emptied_schema")
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


@pytest.fixture
async def broker(url):
    async with connect(url) as opened:
        yield opened


async def begun(broker, many):
    """Begin so many questions that are never answered, and let them take the readers."""
    tasks = [asyncio.create_task(broker.engine.ask(endless, PATIENCE_S)) for _ in range(many)]
    async with asyncio.timeout(PATIENCE_S):
        while not broker.engine._questions._free.locked():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)  # noqa: TID251 - nothing is waited for but a turn
    assert not any(task.done() for task in tasks)
    return tasks


async def end(tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_everything_else_goes_on_while_all_readers_are_busy(broker):
    await broker.declare("orders")
    tasks = await begun(broker, 5)
    await broker.send("orders", "one")
    async with asyncio.timeout(PATIENCE_S), open_recovery(broker, sources=("orders",)) as recovery:
        await recovery.ingest()
        assert await recovery.failed() == []
        assert await recovery.count() == 0
        assert (await broker.inspect("orders")).ready == 0
    assert not any(task.done() for task in tasks)
    await end(tasks)


async def test_a_question_that_takes_too_long_is_ended_and_frees_its_reader(broker):
    for _ in range(3):  # more than there are readers
        with pytest.raises(QuestionTooSlow, match="narrow the filter"):
            await broker.engine.ask(endless, 0.01)
    assert await broker.engine.ask(short, PATIENCE_S) == 42


async def test_a_question_whose_caller_leaves_is_ended_and_frees_its_reader(broker):
    await broker.declare("orders")
    await end(await begun(broker, 5))
    async with asyncio.timeout(PATIENCE_S):
        assert await broker.engine.ask(short, PATIENCE_S) == 42


async def test_waiting_for_a_reader_counts_as_time(broker):
    await broker.declare("orders")
    tasks = await begun(broker, 2)
    with pytest.raises(QuestionTooSlow):
        await broker.engine.ask(short, 0.01)
    await end(tasks)


async def test_closing_ends_the_questions_that_are_under_way(url):
    async with asyncio.timeout(PATIENCE_S):
        async with connect(url) as broker:
            await broker.declare("orders")
            tasks = await begun(broker, 2)
            if "postgresql" in url:  # whose pool waits for callers
                await end(tasks)
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_ledger_for_slow_questions_reads_and_changes_nothing(broker):
    reader = open_slow_reader(broker, limit=PATIENCE_S)
    assert await reader.count("text") == 0
    assert await reader.failed("text") == []
    for change in (reader._ledger.drop_note(1, "ann"), LimitedDatabase(broker.engine, 1).apply_inside([], print)):
        with pytest.raises(UsageError, match="only reads"):
            await change


async def test_an_engine_with_retries_answers_them_too_and_memory_has_one_reader():
    async with connect("sqlite:///:memory:", retry=Fixed(0, max_attempts=2)) as broker:
        assert find_ability(broker.engine, Questions) is not None
        assert await broker.engine.ask(short, 1) == 42
