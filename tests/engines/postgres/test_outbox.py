# SPDX-License-Identifier: MIT
"""``within=``: sends and completions are part of the user's own transaction, whatever he opened it with."""

import asyncio
from contextlib import contextmanager, suppress
from urllib.parse import quote

import asyncpg
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import rows
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import redrive
from redrive.broker import Abandon, Complete, Lock, Message, Send
from redrive.clock import system_clock, utc
from redrive.engines.postgres import engine as engine_module
from redrive.errors import LockLost, MessageTooLarge, QueueNotFound, SessionRequired, UsageError
from tests.engines.postgres.breaking import ORDERS, until_it_answers
from tests.engines.postgres.transactions import TRANSACTIONS, async_engine, asyncpg_connection, blocking_engine
from tests.patience import PATIENCE_S
from tests.postgres.server import run_sql

NOTES = "notes"


class Undo(Exception):
    """What a user's block raises to be rolled back."""


@contextmanager
def undone(by=Undo, match=None):
    """A block whose transaction is rolled back by what it raises."""
    with pytest.raises(by, match=match) as caught:
        yield caught


@pytest.fixture
def broker_url(postgres_url, emptied_schema):
    """Where the broker is, for ``connect``."""
    return f"{postgres_url}{'&' if '?' in postgres_url else '?'}schema={emptied_schema}"


@pytest.fixture
async def broker(broker_url):
    async with redrive.connect(broker_url) as broker:
        await broker.declare(ORDERS)
        yield broker


@pytest.fixture(autouse=True)
def notes(postgres_url):
    """The name of a table of the user's, beside the broker's schema."""
    name = f"public.{NOTES}"
    run_sql(postgres_url, f"CREATE TABLE {name} (note text PRIMARY KEY)")
    yield name
    run_sql(postgres_url, f"DROP TABLE {name}")


@pytest.fixture(params=TRANSACTIONS)
def transaction(request, postgres_url):
    """Opens a transaction as a user does, with each of the drivers in turn."""
    return lambda: TRANSACTIONS[request.param](postgres_url)


@pytest.fixture
def some_transaction(postgres_url):
    """Opens a transaction, for what does not depend on the driver."""
    return lambda: asyncpg_connection(postgres_url)


@pytest.fixture
def noted(postgres_url, notes):
    """Returns what is in the user's table."""
    return lambda: [row["note"] for row in run_sql(postgres_url, f"SELECT note FROM {notes} ORDER BY note")]  # noqa: S608


def insert(note):
    return f"INSERT INTO public.{NOTES} VALUES ('{note}')"  # noqa: S608


async def ids(broker, queue=ORDERS):
    return [one.message.id for one in await broker.peek(queue)]


async def locked(broker, message="one"):
    """Send a message, receive it, and return its lock."""
    await broker.send(ORDERS, message if isinstance(message, Message) else Message(b"body", id=message))
    (delivery,) = await broker.receive(ORDERS)
    return delivery.lock


# --- committed, or not


async def test_a_commit_stores_the_row_and_the_message(broker, transaction, noted):
    async with transaction() as opened:
        await opened.run(insert("lamp"))
        (number,) = await broker.apply(Send(ORDERS, Message(b"lamp", id="lamp")), within=opened.within)
        assert await broker.receive(ORDERS) == []  # nobody sees it before it is committed
    (delivery,) = await broker.receive(ORDERS)
    assert (delivery.sequence, delivery.id, delivery.body) == (number, "lamp", b"lamp")
    assert noted() == ["lamp"]


async def test_a_rollback_undoes_the_row_and_the_message(broker, transaction, noted):
    with undone():
        async with transaction() as opened:
            await opened.run(insert("lamp"))
            await broker.apply(Send(ORDERS, Message(b"lamp")), within=opened.within)
            raise Undo
    assert await ids(broker) == []
    assert noted() == []


async def test_a_receiver_in_another_engine_is_woken(broker, broker_url, transaction, monkeypatch):
    monkeypatch.setattr(engine_module, "_LOOK_EVERY_S", 3_600.0)  # so that nothing but the hint can wake it
    async with redrive.connect(broker_url) as other:
        receiving = asyncio.create_task(other.receive(ORDERS, wait=2 * PATIENCE_S))
        await asyncio.wait_for(other.engine._listener._heard.wait(), PATIENCE_S)
        async with transaction() as opened:
            await broker.apply(Send(ORDERS, Message(b"", id="wake up")), within=opened.within)
        (delivery,) = await asyncio.wait_for(receiving, PATIENCE_S)
        assert delivery.id == "wake up"


async def test_a_completion_is_committed_with_the_row(broker, transaction, noted):
    lock = await locked(broker)
    async with transaction() as opened:
        await opened.run(insert("done"))
        assert await broker.apply(Complete(lock), within=opened.within) == [None]
    assert await ids(broker) == []
    assert noted() == ["done"]


async def test_a_completion_is_rolled_back_with_the_row_and_the_lock_is_still_good(broker, transaction, noted):
    lock = await locked(broker)
    with undone():
        async with transaction() as opened:
            await opened.run(insert("done"))
            await broker.apply(Complete(lock), within=opened.within)
            raise Undo
    assert noted() == []
    await broker.apply(Complete(lock))
    assert await ids(broker) == []


async def test_a_lost_lock_undoes_the_row_and_what_was_sent_with_it(broker, transaction, noted):
    lock = await locked(broker)
    await broker.apply(Abandon(lock))
    with undone(LockLost) as caught:
        async with transaction() as opened:
            await opened.run(insert("done"))
            await broker.apply(Send(ORDERS, Message(b"", id="two")), within=opened.within)
            await broker.apply(Send(ORDERS, Message(b"", id="three")), Complete(lock), within=opened.within)
    assert (caught.value.queue, caught.value.sequence) == (ORDERS, lock.sequence)
    assert noted() == []
    assert await ids(broker) == ["one"]


@pytest.mark.parametrize("wrong", [Lock(ORDERS, 1, 7), Lock("nowhere", 1, 7), Lock(ORDERS, 2**70, -(2**70))])
async def test_a_lock_that_was_never_one_is_lost(broker, some_transaction, wrong):
    async with some_transaction() as opened:
        with pytest.raises(QueueNotFound if wrong.queue == "nowhere" else LockLost):
            await broker.apply(Complete(wrong), within=opened.within)


async def test_a_lock_is_one_in_its_own_queue_only(broker, some_transaction):
    good, other = await locked(broker), await locked(broker, "two")
    await broker.declare("elsewhere")
    async with some_transaction() as opened:
        with pytest.raises(LockLost):
            await broker.apply(
                Complete(good), Complete(Lock("elsewhere", other.sequence, other.token)), within=opened.within
            )
    assert await ids(broker) == ["one", "two"]


# --- what is sent


async def test_numbers_come_back_in_the_order_of_what_was_sent(broker, transaction):
    await broker.declare("parcels")
    lock = await locked(broker)
    names = [f"{number:02}" for number in range(30)]
    sends = [Send("parcels" if number % 3 else ORDERS, Message(b"", id=name)) for number, name in enumerate(names)]
    async with transaction() as opened:
        *numbers, none = await broker.apply(*sends, Complete(lock), within=opened.within)
    assert none is None
    assert numbers == sorted(set(numbers))
    found = await broker.peek(ORDERS) + await broker.peek("parcels")
    assert sorted((one.sequence, one.message.id) for one in found) == list(zip(numbers, names, strict=True))


AWKWARD = Message(
    bytes(range(256)),
    id="ünïcode \U0001f600 \\u0041 'quoted' \"twice\" %s {} :name $1",
    subject="a\ttab, a\nline, \x01 and \x7f",
    correlation_id="\\",
    ttl=60,
    headers={
        "nothing": None, "yes": True, "whole": 2**60, "half": 0.5, "\"'\\": "\u2028\u2029\ufeff",
        "percent %(x)s": "{'json': \"inside\"}", "nul": "\0", "empty": "",
    },
)  # fmt: skip


async def test_awkward_bytes_and_texts_arrive_as_they_were_sent(broker, transaction):
    async with transaction() as opened:
        await broker.apply(Send(ORDERS, AWKWARD), Send(ORDERS, Message(b"", id="empty")), within=opened.within)
    awkward, empty = await broker.receive(ORDERS, max_messages=2)
    assert awkward.message == AWKWARD
    assert empty.message == Message(b"", id="empty")


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=50)
values = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
messages = st.builds(
    Message, st.binary(max_size=300), id=texts, subject=texts, headers=st.dictionaries(texts, values | texts)
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=st.lists(messages, min_size=1, max_size=10))
async def test_any_message_arrives_as_it_was_sent(broker_url, postgres_url, sent):
    async with redrive.connect(broker_url) as broker:
        await broker.declare(ORDERS)
        async with asyncpg_connection(postgres_url) as opened:
            await broker.apply(*(Send(ORDERS, message) for message in sent), within=opened.within)
        found = await broker.receive(ORDERS, max_messages=len(sent), delete=True)
        assert [each.message for each in found] == sent


async def test_a_message_without_an_id_is_given_one(broker, some_transaction):
    async with some_transaction() as opened:
        await broker.apply(Send(ORDERS, Message(b"")), Send(ORDERS, Message(b"")), within=opened.within)
    one, two = await ids(broker)
    assert one != two


async def test_a_large_body_arrives_whole(broker, some_transaction):
    body = bytes(1_000_000)
    async with some_transaction() as opened:
        await broker.apply(Send(ORDERS, Message(body)), within=opened.within)
    (delivery,) = await broker.receive(ORDERS)
    assert delivery.body == body


async def test_a_message_can_be_scheduled(broker, some_transaction):
    at = utc(system_clock.time() + 3_600)
    async with some_transaction() as opened:
        await broker.apply(Send(ORDERS, Message(b"", id="later"), at), within=opened.within)
    assert await broker.receive(ORDERS) == []
    (later,) = await broker.peek(ORDERS)
    assert abs(later.due_at - at).total_seconds() < 0.001


async def test_a_message_lives_as_long_as_it_and_its_queue_say(broker, some_transaction):
    await broker.declare("short", default_ttl=60)
    sends = [Send("short", Message(b"", ttl=30)), Send("short", Message(b"", ttl=90)), Send("short", Message(b""))]
    async with some_transaction() as opened:
        await broker.apply(*sends, within=opened.within)
    found = await broker.peek("short")
    assert [round((one.expires_at - one.enqueued_at).total_seconds()) for one in found] == [30, 60, 60]


async def test_a_message_belongs_to_its_session(broker, some_transaction):
    await broker.declare("talks", requires_session=True)
    async with some_transaction() as opened:
        with pytest.raises(SessionRequired):
            await broker.apply(Send("talks", Message(b"")), within=opened.within)
        await broker.apply(Send("talks", Message(b"hello", session_id="ann")), within=opened.within)
    async with await broker.accept_session("talks", "ann") as session:
        (delivery,) = await session.receive()
        assert delivery.body == b"hello"


async def test_a_duplicate_is_recognised_within_a_transaction_and_across(broker, transaction):
    await broker.declare("once", duplicate_detection=60)
    twice = [Send("once", Message(b"", id="a")), Send("once", Message(b"", id="a"))]
    async with transaction() as opened:
        first, second = await broker.apply(*twice, within=opened.within)
        assert first is not None
        assert second is None
        assert await broker.apply(twice[0], within=opened.within) == [None]
    async with transaction() as opened:
        again, other = await broker.apply(twice[0], Send(ORDERS, Message(b"")), within=opened.within)
        assert again is None
        assert other > first
    assert await ids(broker, "once") == ["a"]


async def test_an_id_that_was_rolled_back_was_never_seen(broker, transaction):
    await broker.declare("once", duplicate_detection=60)
    with undone():
        async with transaction() as opened:
            await broker.apply(Send("once", Message(b"", id="a")), within=opened.within)
            raise Undo
    assert await broker.send("once", Message(b"", id="a")) is not None


async def test_a_message_sent_twice_on_purpose_is_sent(broker, some_transaction):
    await broker.declare("once", duplicate_detection=60)
    await broker.send("once", Message(b"", id="a"))
    async with some_transaction() as opened:
        (number,) = await broker.apply(Send("once", Message(b"", id="a"), even_if_seen=True), within=opened.within)
    assert number is not None


# --- while it is open


async def test_a_transaction_that_stays_open_holds_nobody_up(broker, some_transaction):
    await broker.declare("answers", auto_delete_on_idle=300)
    lock = await locked(broker)
    async with some_transaction() as opened:
        await broker.apply(
            Complete(lock), Send(ORDERS, Message(b"", id="open")), Send("answers", Message(b"")), within=opened.within
        )
        await broker.send_many(ORDERS, [Message(b"", id="two"), Message(b"", id="three")])
        await broker.send("answers", b"")
        two, three = await broker.receive(ORDERS, max_messages=10)
        await asyncio.gather(two.complete(), three.abandon())
        await broker.engine.upkeep()
        await broker.declare("another")
        await broker.inspect(ORDERS)
    assert await ids(broker) == ["open", "three"]


@pytest.mark.parametrize("is_committed", [True, False])
async def test_who_sends_the_same_id_waits_for_the_end_and_is_told_right(broker, some_transaction, is_committed):
    await broker.declare("once", duplicate_detection=60)
    with suppress(Undo):
        async with some_transaction() as opened:
            await broker.apply(Send("once", Message(b"", id="a")), within=opened.within)
            sending = asyncio.create_task(until_it_answers.call_async(broker.send, "once", Message(b"", id="a")))
            await asyncio.wait([sending], timeout=0.2)
            assert not sending.done()
            if not is_committed:
                raise Undo
    assert (await sending is None) == is_committed
    assert await ids(broker, "once") == ["a"]


# --- what is refused


@pytest.mark.parametrize(
    ("effect", "error"),
    [
        (Send("nowhere", Message(b"")), QueueNotFound),
        (Send("small", Message(b"too much")), MessageTooLarge),
        (Abandon(Lock(ORDERS, 1, 1)), UsageError),
    ],
    ids=["unknown-queue", "too-large", "another-effect"],
)
async def test_what_is_refused_leaves_the_transaction_usable(broker, transaction, noted, effect, error):
    await broker.declare("small", max_message_bytes=5)
    async with transaction() as opened:
        await opened.run(insert("before"))
        with pytest.raises(error):
            await broker.apply(Send(ORDERS, Message(b"", id="refused")), effect, within=opened.within)
        await opened.run(insert("after"))
        await broker.apply(Send(ORDERS, Message(b"", id="sent")), within=opened.within)
    assert noted() == ["after", "before"]
    assert await ids(broker) == ["sent"]


async def test_a_lost_lock_in_a_savepoint_leaves_the_rest(broker, postgres_url, noted):
    async with asyncpg_connection(postgres_url) as opened:
        await opened.run(insert("kept"))
        with undone(LockLost):
            async with opened.within.transaction():
                await opened.run(insert("undone"))
                await broker.apply(Complete(Lock(ORDERS, 1, 1)), within=opened.within)
        await broker.apply(Send(ORDERS, Message(b"", id="sent")), within=opened.within)
    assert noted() == ["kept"]
    assert await ids(broker) == ["sent"]


async def test_a_queue_that_another_process_has_declared_is_known(broker, broker_url, some_transaction):
    async with redrive.connect(broker_url) as other:
        await other.declare("new")
    async with some_transaction() as opened:
        await broker.apply(Send("new", Message(b"", id="sent")), within=opened.within)
    assert await ids(broker, "new") == ["sent"]


async def test_a_queue_that_another_process_has_deleted_is_an_error_and_nothing_is_lost(
    broker, broker_url, some_transaction, noted
):
    await broker.declare("old")
    await broker.send("old", b"")
    async with redrive.connect(broker_url) as other:
        await other.delete("old")
    with undone(QueueNotFound, match="'old'"):
        async with some_transaction() as opened:
            await opened.run(insert("lamp"))
            await broker.apply(Send(ORDERS, Message(b"")), Send("old", Message(b"")), within=opened.within)
    assert noted() == []
    assert await ids(broker) == []


async def test_settings_that_another_process_has_changed_count(broker, broker_url, some_transaction):
    await broker.send(ORDERS, Message(b"", id="before"))
    async with redrive.connect(broker_url) as other:
        await other.update(ORDERS, max_message_bytes=5)
    with pytest.raises(MessageTooLarge):
        async with some_transaction() as opened:
            await broker.apply(Send(ORDERS, Message(b"too much")), within=opened.within)


async def test_a_send_is_a_use_of_its_queue(broker, postgres_url, emptied_schema, some_transaction):
    await broker.declare("answers", auto_delete_on_idle=300)
    run_sql(postgres_url, f'UPDATE "{emptied_schema}".queues SET used_at = used_at - 200')  # noqa: S608
    before = (await broker.inspect("answers")).used_at
    async with some_transaction() as opened:
        await broker.apply(Send("answers", Message(b"")), within=opened.within)
    assert (await broker.inspect("answers")).used_at > before


# --- what is no transaction of the broker's database


@contextmanager
def refused(*words):
    with pytest.raises(UsageError) as caught:
        yield
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.fixture
def another_database(postgres):
    name = "redrive_test_elsewhere"
    yield postgres.create_database(name)
    run_sql(postgres.url(), f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.mark.parametrize("kind", TRANSACTIONS)
async def test_a_connection_to_another_database_is_named(broker, another_database, kind, emptied_schema):
    with refused("within=", "own database", emptied_schema):
        async with TRANSACTIONS[kind](another_database) as opened:
            await broker.apply(Send(ORDERS, Message(b"")), within=opened.within)


@pytest.mark.parametrize(
    "foreign", [object(), "postgresql:///", asyncio, 7, b"", {}], ids=lambda one: type(one).__name__
)
async def test_what_is_no_connection_is_named(broker, foreign):
    with refused("within=", type(foreign).__name__, "asyncpg"):
        await broker.apply(Send(ORDERS, Message(b"")), within=foreign)


async def test_what_has_no_transaction_of_its_own_is_refused(broker, postgres_url):
    engine = blocking_engine(postgres_url)
    cursor = psycopg.connect(postgres_url).cursor()
    async with asyncpg.create_pool(postgres_url, min_size=0) as pool:
        for maker in (pool, engine, sessionmaker(engine), cursor):
            with refused("within=", type(maker).__name__):
                await broker.apply(Send(ORDERS, Message(b"")), within=maker)
    cursor.connection.close()
    assert await ids(broker) == []


async def test_a_connection_without_a_transaction_is_refused_rather_than_sent_at_once(broker, postgres_url):
    """Nothing would be undone by a rollback."""
    plain = await asyncpg.connect(postgres_url)
    at_once = [
        plain,
        await psycopg.AsyncConnection.connect(postgres_url, autocommit=True),
        await async_engine(postgres_url, "asyncpg").execution_options(isolation_level="AUTOCOMMIT").connect(),
        AsyncSession(async_engine(postgres_url, "psycopg").execution_options(isolation_level="AUTOCOMMIT")),
    ]
    for connection in at_once:
        with refused("within=", "no transaction is open"):
            await broker.apply(Send(ORDERS, Message(b"")), within=connection)
        await connection.close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        with refused("within=", "no transaction is open"):
            await broker.apply(Send(ORDERS, Message(b"")), within=connection)
        with connection.transaction():
            await broker.apply(Send(ORDERS, Message(b"", id="sent")), within=connection)
    assert await ids(broker) == ["sent"]


async def test_another_kind_of_database_is_named(broker):
    with Session(create_engine("sqlite://")) as session, refused("within=", "sqlite"):
        await broker.apply(Send(ORDERS, Message(b"")), within=session)


async def test_inside_and_within_are_one_too_many(broker, some_transaction):
    async with some_transaction() as opened:
        with refused("inside", "within"):
            await broker.apply(Send(ORDERS, Message(b"")), inside=lambda _: None, within=opened.within)


async def test_sqlite_says_what_to_do_instead():
    async with redrive.connect("sqlite:///:memory:") as broker:
        await broker.declare(ORDERS)
        with refused("inside="):
            await broker.apply(Send(ORDERS, Message(b"")), within=object())
        assert await ids(broker) == []


async def test_a_transaction_that_has_failed_says_so_in_the_words_of_its_driver(broker, postgres_url):
    async with asyncpg_connection(postgres_url) as opened:
        with pytest.raises(asyncpg.UndefinedTableError):
            await opened.run("SELECT * FROM nothing")
        with pytest.raises(asyncpg.InFailedSQLTransactionError):
            await broker.apply(Send(ORDERS, Message(b"")), within=opened.within)
    assert await ids(broker) == []


# --- how users set up their drivers


@pytest.mark.parametrize("factory", [rows.dict_row, rows.namedtuple_row, rows.scalar_row, rows.class_row(Undo)])
async def test_psycopg_may_make_any_kind_of_rows(broker, postgres_url, factory):
    async with await psycopg.AsyncConnection.connect(postgres_url, row_factory=factory) as connection:
        numbers = await broker.apply(*[Send(ORDERS, Message(b""))] * 2, within=connection)
    with psycopg.connect(postgres_url, row_factory=factory) as connection:
        numbers += await broker.apply(*[Send(ORDERS, Message(b""))] * 2, within=connection)
    assert [one.sequence for one in await broker.peek(ORDERS)] == numbers


@pytest.mark.parametrize("cursors", [psycopg.ClientCursor, psycopg.RawCursor])
async def test_psycopg_may_have_any_kind_of_cursors(broker, postgres_url, cursors):
    with psycopg.connect(postgres_url, cursor_factory=cursors) as connection:
        await broker.apply(Send(ORDERS, Message(b"100 %", id="sent")), within=connection)
    assert await ids(broker) == ["sent"]


async def test_sqlalchemy_sessions_may_be_scoped(broker, postgres_url):
    async_sessions = async_scoped_session(
        async_sessionmaker(async_engine(postgres_url, "asyncpg")), scopefunc=asyncio.current_task
    )
    await broker.apply(Send(ORDERS, Message(b"", id="async")), within=async_sessions)
    await async_sessions.commit()
    await async_sessions.remove()
    sessions = scoped_session(sessionmaker(blocking_engine(postgres_url)))
    await broker.apply(Send(ORDERS, Message(b"", id="blocking")), within=sessions)
    sessions.commit()
    sessions.remove()
    assert await ids(broker) == ["async", "blocking"]


@pytest.mark.parametrize("kind", TRANSACTIONS)
async def test_a_schema_may_have_any_name(broker_url, postgres_url, emptied_schema, kind):
    odd = 'per%cent %s {} {0} :name ::x "quoted" $1'
    url = broker_url.replace(f"schema={emptied_schema}", f"schema={quote(odd)}")
    try:
        async with redrive.connect(url) as broker:
            await broker.declare(ORDERS)
            async with TRANSACTIONS[kind](postgres_url) as opened:
                await broker.apply(Send(ORDERS, Message(b"", id="sent")), within=opened.within)
            assert await ids(broker) == ["sent"]
    finally:
        run_sql(postgres_url, 'DROP SCHEMA "{}" CASCADE'.format(odd.replace('"', '""')))


# --- without asyncio


@contextmanager
def psycopg_transaction(url):
    with psycopg.connect(url) as connection:
        yield connection, connection.execute


@contextmanager
def session_transaction(url):
    with Session(blocking_engine(url)) as session, session.begin():
        yield session, session.connection().exec_driver_sql


@contextmanager
def connection_transaction(url):
    with blocking_engine(url).begin() as connection:
        yield connection, connection.exec_driver_sql


@pytest.fixture(params=[psycopg_transaction, session_transaction, connection_transaction])
def blocking_transaction(request, postgres_url):
    return lambda: request.param(postgres_url)


def test_a_blocking_program_sends_and_completes_in_its_own_transaction(broker_url, blocking_transaction, noted):
    with redrive.connect_blocking(broker_url) as broker:
        broker.declare(ORDERS)
        with blocking_transaction() as (connection, run):
            run(insert("placed"))
            broker.apply(Send(ORDERS, Message(b"lamp", id="lamp")), within=connection)
        (delivery,) = broker.receive(ORDERS, wait=10)
        with blocking_transaction() as (connection, run):
            run(insert("shipped"))
            broker.apply(Complete(delivery.lock), within=connection)
        assert noted() == ["placed", "shipped"]
        assert broker.peek(ORDERS) == []


def test_a_blocking_program_that_rolls_back_has_done_nothing(broker_url, blocking_transaction, noted):
    with redrive.connect_blocking(broker_url) as broker:
        broker.declare(ORDERS)
        broker.send(ORDERS, Message(b"", id="one"))
        (delivery,) = broker.receive(ORDERS)
        with undone(), blocking_transaction() as (connection, run):
            run(insert("undone"))
            broker.apply(Send(ORDERS, Message(b"")), Complete(delivery.lock), within=connection)
            raise Undo
        with undone(LockLost), blocking_transaction() as (connection, run):
            run(insert("undone"))
            broker.apply(Complete(Lock(ORDERS, 1, 1)), within=connection)
        assert noted() == []
        assert [one.message.id for one in broker.peek(ORDERS)] == ["one"]
        delivery.complete()


# --- inside: the broker's own transaction


async def test_inside_is_part_of_the_brokers_transaction(broker, noted):
    lock = await locked(broker)
    await broker.apply(Complete(lock), Send(ORDERS, Message(b"", id="two")), inside=lambda db: db.execute(insert("a")))
    assert noted() == ["a"]
    assert await ids(broker) == ["two"]
    with pytest.raises(LockLost):
        await broker.apply(Complete(lock), inside=lambda db: db.execute(insert("b")))
    assert noted() == ["a"]


async def test_what_inside_raises_undoes_everything_and_comes_as_it_is(broker, noted):
    async def fail(db):
        await db.execute(insert("a"))
        raise Undo

    async def twice(db):
        await db.execute(insert("a"))
        await db.execute(insert("a"))

    for inside, error in ((fail, Undo), (twice, asyncpg.UniqueViolationError)):
        with pytest.raises(error):
            await broker.apply(Send(ORDERS, Message(b"")), inside=inside)
    assert noted() == []
    assert await ids(broker) == []


async def test_a_rule_that_is_checked_at_the_end_is_the_users_own(broker, postgres_url, notes, noted):
    run_sql(postgres_url, f"ALTER TABLE {notes} ADD CONSTRAINT late UNIQUE (note) DEFERRABLE INITIALLY DEFERRED")
    run_sql(postgres_url, f"ALTER TABLE {notes} DROP CONSTRAINT {NOTES}_pkey")

    async def twice(db):
        await db.execute(insert("a"))
        await db.execute(insert("a"))

    with pytest.raises(asyncpg.UniqueViolationError):
        await broker.apply(Send(ORDERS, Message(b"")), inside=twice)
    assert noted() == []
    assert await ids(broker) == []


@pytest.mark.parametrize(
    "error",
    [OSError("of his own"), TimeoutError(), asyncpg.InterfaceError("misused")],
    ids=lambda one: type(one).__name__,
)
async def test_what_is_the_users_own_fault_is_not_done_again(broker, error):
    calls = []

    async def fail(_):
        calls.append(1)
        raise error

    with pytest.raises(type(error)) as caught:
        await broker.apply(Send(ORDERS, Message(b"")), inside=fail)
    assert caught.value is error
    assert calls == [1]
    await broker.send(ORDERS, Message(b"", id="later"))
    assert await ids(broker) == ["later"]
