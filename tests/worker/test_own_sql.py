# SPDX-License-Identifier: MIT
"""Handlers that complete their message, send others and write tables of their own in one transaction."""

import asyncio
import os
import signal
from collections import Counter

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

import redrive
from redrive.broker import Message
from redrive.broker.headers import RECOVERY_TAG
from redrive.broker.rules import CONFIRMATIONS
from redrive.engines.postgres.store import Store as PostgresStore
from redrive.engines.sqlite.store import Store as SqliteStore
from redrive.errors import LockLost, UsageError
from redrive.worker import BlockingContext, Context, HandlerFailed, MessageLockLost, Recoverability, Worker
from tests.postgres.server import run_sql

TWICE = Recoverability(immediate=1, delayed=None)


class Shop:
    """A broker, a table ``notes`` beside its queues, and a worker for ``orders``."""

    def __init__(self, url, plain_url=None):
        self.url = url
        self.plain_url = plain_url
        self.events = []
        self.worker = Worker(on_event=self.events.append)

    async def work(self, **how):
        async with redrive.connect(self.url) as broker:
            await self.worker.run(broker, until_idle=True, **how)

    def insert(self, note, connection):
        """Write a note; to be awaited on PostgreSQL."""
        if self.plain_url is None:
            return connection.execute("INSERT INTO notes VALUES (?)", (note,))
        return connection.execute("INSERT INTO notes VALUES ($1)", note)

    async def notes(self):
        found = []

        def read(connection):
            rows = connection.execute("SELECT note FROM notes ORDER BY note")
            found.extend(row[0] for row in rows)

        async def read_later(connection):
            found.extend(row[0] for row in await connection.fetch("SELECT note FROM notes ORDER BY note"))

        async with redrive.connect(self.url) as broker:
            await broker.apply(inside=read if self.plain_url is None else read_later)
        return found

    async def bodies(self, queue):
        async with redrive.connect(self.url) as broker:
            return [each.body.decode() for each in await broker.peek(queue)]


@pytest.fixture
def new_postgres_shop(request):
    def new():
        url, schema = request.getfixturevalue("postgres_url"), request.getfixturevalue("emptied_schema")
        run_sql(url, "DROP TABLE IF EXISTS notes", "CREATE TABLE notes (note text PRIMARY KEY)")
        request.addfinalizer(lambda: run_sql(url, "DROP TABLE notes"))
        return Shop(f"{url}{'&' if '?' in url else '?'}schema={schema}", url)

    return new


@pytest.fixture(params=["sqlite", "postgres"])
async def shop(request, tmp_path, new_postgres_shop):
    made = new_postgres_shop() if request.param == "postgres" else Shop(f"sqlite:///{tmp_path}/shop.db")
    async with redrive.connect(made.url) as broker:
        if request.param == "sqlite":
            await broker.apply(inside=lambda db: db.execute("CREATE TABLE notes (note TEXT PRIMARY KEY)"))
        for queue in ("orders", "mails"):
            await broker.declare(queue)
        await broker.send("orders", Message(b"lamp", id="m1"))
    return made


@pytest.fixture
async def postgres_shop(new_postgres_shop):
    made = new_postgres_shop()
    async with redrive.connect(made.url) as broker:
        for queue in ("orders", "mails"):
            await broker.declare(queue)
        await broker.send("orders", Message(b"lamp", id="m1"))
    return made


async def test_the_completion_the_sends_and_the_handlers_sql_are_one_transaction(shop):
    @shop.worker.handler("orders")
    async def handle(body: str, context: Context):
        context.send("mails", f"thank you for the {body}")
        await context.complete(inside=lambda db: shop.insert(body, db))

    await shop.work()
    assert (await shop.notes(), await shop.bodies("mails"), await shop.bodies("orders")) == (
        ["lamp"],
        ["thank you for the lamp"],
        [],
    )
    assert shop.events == []


async def test_a_blocking_handler_does_the_same(shop):
    @shop.worker.handler("orders", auto_complete=False)
    def handle(body: str, context: BlockingContext):
        context.send("mails", f"thank you for the {body}")
        context.complete(inside=lambda db: shop.insert(body, db))

    await shop.work()
    assert (await shop.notes(), await shop.bodies("mails"), await shop.bodies("orders")) == (
        ["lamp"],
        ["thank you for the lamp"],
        [],
    )


async def test_sql_that_fails_is_the_handlers_failure_and_commits_nothing(shop):
    tried = []

    @shop.worker.handler("orders", recoverability=TWICE)
    async def handle(body: str, context: Context):
        tried.append(context.attempt)
        context.send("mails", "never")

        def twice(db):  # the second one fails, and takes the first with it
            return [shop.insert(body, db), shop.insert(body, db)]

        async def twice_later(db):
            for doing in [1, 2]:
                tried.append(doing)
                await shop.insert(body, db)

        await context.complete(inside=twice if shop.plain_url is None else twice_later)

    await shop.work()
    assert Counter(tried)[2] >= 1
    assert (await shop.notes(), await shop.bodies("mails"), await shop.bodies("orders/$dead")) == ([], [], ["lamp"])
    failures = [event for event in shop.events if isinstance(event, HandlerFailed)]
    assert [event.outcome for event in failures] == ["redeliver_now", "moved"]
    assert failures[0].exception_type in ("sqlite3.IntegrityError", "asyncpg.exceptions.UniqueViolationError")


async def test_a_handler_that_catches_its_failed_sql_may_complete_otherwise(shop):
    @shop.worker.handler("orders")
    async def handle(body: str, context: Context):
        with pytest.raises(Exception, match=r"no such table|does not exist"):
            await context.complete(inside=lambda db: db.execute("INSERT INTO nowhere VALUES (1)"))
        await context.complete(inside=lambda db: shop.insert(body, db))

    await shop.work()
    assert (await shop.notes(), await shop.bodies("orders")) == (["lamp"], [])


async def test_a_lock_that_was_lost_undoes_the_handlers_sql(shop):
    async with redrive.connect(shop.url) as other:

        @shop.worker.handler("orders")
        async def handle(body: str, context: Context):
            if context.attempt == 1:
                await other.delete("orders")  # whatever ends the lock
                await other.declare("orders")
            with pytest.raises(LockLost):
                await context.complete(inside=lambda db: shop.insert(body, db))

        await shop.work()
    assert await shop.notes() == []
    assert [type(event) for event in shop.events] == [MessageLockLost]


@pytest.mark.parametrize("is_there", [True, False], ids=["recovery", "no_recovery"])
async def test_a_recovered_message_is_confirmed_in_the_same_transaction(shop, is_there):
    async with redrive.connect(shop.url) as broker:
        if is_there:
            await broker.declare(CONFIRMATIONS)
        await broker.purge("orders")
        await broker.send("orders", Message(b"lamp", headers={RECOVERY_TAG: "tag"}))

    @shop.worker.handler("orders", recoverability=TWICE)
    async def handle(body: str, context: Context):
        if context.attempt == 1:
            await context.complete(inside=lambda db: db.execute("INSERT INTO nowhere VALUES (1)"))
        await context.complete(inside=lambda db: shop.insert(body, db))

    await shop.work()
    assert (await shop.notes(), await shop.bodies("orders")) == (["lamp"], [])
    if is_there:
        async with redrive.connect(shop.url) as broker:
            assert [each.headers[RECOVERY_TAG] for each in await broker.peek(CONFIRMATIONS)] == ["tag"]


# --- in a transaction of the handler's


async def test_an_asyncpg_transaction_of_the_handlers_has_the_completion_in_it(postgres_shop):
    shop = postgres_shop
    async with asyncpg.create_pool(shop.plain_url, min_size=1, max_size=2) as pool:

        @shop.worker.handler("orders")
        async def handle(body: str, context: Context):
            context.send("mails", f"thank you for the {body}")
            async with pool.acquire() as connection, connection.transaction():
                await shop.insert(body, connection)
                await context.complete(within=connection)
                assert await shop.bodies("orders") == ["lamp"]  # until it is committed

        await shop.work()
    assert (await shop.notes(), await shop.bodies("mails"), await shop.bodies("orders")) == (
        ["lamp"],
        ["thank you for the lamp"],
        [],
    )
    assert shop.events == []


@pytest.mark.parametrize("driver", ["psycopg", "sqlalchemy"])
async def test_a_blocking_handlers_transaction_has_the_completion_in_it(postgres_shop, driver):
    shop = postgres_shop
    engine = create_engine(shop.plain_url.replace("postgresql:", "postgresql+psycopg:"))

    @shop.worker.handler("orders")
    def handle(body: str, context: BlockingContext):
        if driver == "psycopg":
            with psycopg.connect(shop.plain_url) as connection:
                connection.execute("INSERT INTO notes VALUES (%s)", (body,))
                context.complete(within=connection)
        else:
            with Session(engine) as session, session.begin():
                session.execute(text("INSERT INTO notes VALUES (:note)"), {"note": body})
                context.complete(within=session)

    await shop.work()
    engine.dispose()
    assert (await shop.notes(), await shop.bodies("orders"), shop.events) == (["lamp"], [], [])


async def test_a_transaction_that_is_rolled_back_is_the_handlers_failure(postgres_shop):
    shop, tried = postgres_shop, []

    @shop.worker.handler("orders", recoverability=TWICE)
    def handle(body: str, context: BlockingContext):
        context.send("mails", "thank you")
        with psycopg.connect(shop.plain_url) as connection:
            connection.execute("INSERT INTO notes VALUES (%s)", (body,))
            context.complete(within=connection)
            tried.append(context.attempt)
            if context.attempt == 1:
                raise ConnectionError("after the completion and before the commit")

    await shop.work()
    assert tried == [1, 2]
    assert (await shop.notes(), await shop.bodies("mails")) == (["lamp"], ["thank you"])
    assert await shop.bodies("orders") == []
    assert [event.outcome for event in shop.events] == ["redeliver_now"]


async def test_a_failure_after_the_commit_changes_nothing(postgres_shop):
    shop = postgres_shop

    @shop.worker.handler("orders")
    def handle(body: str, context: BlockingContext):
        with psycopg.connect(shop.plain_url) as connection:
            connection.execute("INSERT INTO notes VALUES (%s)", (body,))
            context.complete(within=connection)
        raise ConnectionError("after the commit")

    await shop.work()
    assert (await shop.notes(), await shop.bodies("orders")) == (["lamp"], [])
    assert [event.outcome for event in shop.events] == ["settled"]


async def test_a_transaction_that_failed_may_be_tried_again_in_the_handler(postgres_shop):
    shop = postgres_shop

    @shop.worker.handler("orders")
    def handle(body: str, context: BlockingContext):
        for is_last in (False, True):
            with psycopg.connect(shop.plain_url) as connection:
                connection.execute("INSERT INTO notes VALUES (%s)", (body,))
                context.complete(within=connection)
                if not is_last:
                    connection.rollback()

    await shop.work()
    assert (await shop.notes(), await shop.bodies("orders"), shop.events) == (["lamp"], [], [])


async def test_a_handler_that_returns_without_its_commit_has_failed(postgres_shop):
    shop = postgres_shop

    @shop.worker.handler("orders", recoverability=Recoverability(immediate=0, delayed=None))
    def handle(_body: str, context: BlockingContext):
        with psycopg.connect(shop.plain_url) as connection:
            context.complete(within=connection)
            connection.rollback()

    await shop.work()
    assert await shop.bodies("orders/$dead") == ["lamp"]
    assert "was not committed" in shop.events[0].exception_message


async def test_a_transaction_that_is_left_open_does_not_hold_up_the_worker(postgres_shop):
    shop, left_open = postgres_shop, []
    async with redrive.connect(shop.url) as broker:
        await broker.update("orders", lock_duration=1)
        await broker.purge("orders")
        await broker.send("orders", b"lamp")

    @shop.worker.handler("orders", max_lock_renewal=0)
    def handle(_body: str, context: BlockingContext):
        left_open.append(psycopg.connect(shop.plain_url))
        context.complete(within=left_open[0])

    await shop.work()
    left_open[0].close()
    assert [type(event) for event in shop.events] == [MessageLockLost]


async def test_a_transaction_of_the_handlers_is_refused_where_there_is_none_to_join(tmp_path):
    shop = Shop(f"sqlite:///{tmp_path}/shop.db")
    async with redrive.connect(shop.url) as broker:
        await broker.declare("orders")
        await broker.send("orders", b"lamp")
    refused = []

    @shop.worker.handler("orders")
    async def handle(_body: str, context: Context):
        with pytest.raises(UsageError, match="give your part as inside="):
            await context.complete(within=object())
        refused.append(context.attempt)

    await shop.work()
    assert refused == [1]
    assert await shop.bodies("orders") == []


# --- a process that is killed


def dies_at(nth, count=Counter()):  # noqa: B006 - the child's own
    """Kill this process when it gets here for the n-th time."""
    count["here"] += 1
    if count["here"] == nth:
        os.kill(os.getpid(), signal.SIGKILL)


async def work_and_die(shop, nth):
    """Handle orders in this process, which is killed at the n-th place where it could be."""

    @shop.worker.handler("orders")
    async def handle(body: str, context: Context):
        context.send("mails", f"thank you for the {body}")

        def insert(db):
            dies_at(nth)
            done = shop.insert(body, db)
            dies_at(nth)
            return done

        async def insert_later(db):
            dies_at(nth)
            await shop.insert(body, db)
            dies_at(nth)

        dies_at(nth)
        await context.complete(inside=insert if shop.plain_url is None else insert_later)
        dies_at(nth)

    for kind in (SqliteStore, PostgresStore):
        for verb in ("complete", "send", "apply"):
            if (do := vars(kind).get(verb)) is not None:
                setattr(kind, verb, _followed_by_death(do, nth))
    await shop.work()


def _followed_by_death(do, nth):
    if asyncio.iscoroutinefunction(do):

        async def effect(*values):
            done = await do(*values)
            dies_at(nth)
            return done
    else:

        def effect(*values):
            done = do(*values)
            dies_at(nth)
            return done

    return effect


def killed(shop, nth):
    """Do it in a process of its own; say whether that was killed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            asyncio.run(work_and_die(Shop(shop.url, shop.plain_url), nth))
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_whenever_the_process_is_killed_all_of_it_has_happened_or_nothing(shop):
    nothing, everything = ([], [], ["lamp"]), (["lamp"], ["thank you for the lamp"], [])
    seen, was_killed = [], True
    while was_killed:
        async with redrive.connect(shop.url) as broker:  # a message that nobody has locked
            await broker.delete("orders")
            await broker.declare("orders")
            await broker.send("orders", b"lamp")
        was_killed = await asyncio.to_thread(killed, shop, len(seen) + 1)
        seen.append((await shop.notes(), await shop.bodies("mails"), await shop.bodies("orders")))
        assert seen[-1] in (nothing, everything)
        if was_killed and seen[-1] == everything:
            break
    # in the handler, around its SQL, after each of the effects; then after the commit
    assert seen == [nothing] * 5 + [everything]
