# SPDX-License-Identifier: MIT
"""A PostgreSQL server for each process that runs tests, started when the first test asks for it.

``REDRIVE_TEST_POSTGRES=url`` names one to be used instead. Tests that stop and break servers have one of their own.
"""

import os
from itertools import count

import psycopg
import pytest

EMPTY = """
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', name);
    END LOOP;
    CREATE SCHEMA public;
END $$
"""
"""A database as it was at first; making a new one for each test takes longer than most of them."""

names = (f"redrive_test_{os.getpid()}_{number}" for number in count(1))


@pytest.fixture(scope="session")
def postgres():
    """A server that all tests of this process share."""
    foreign = os.environ.get("REDRIVE_TEST_POSTGRES")
    if foreign:
        from tests.postgres.server import ForeignServer

        yield ForeignServer(foreign)
    else:
        yield from new_server("FAST")


@pytest.fixture(scope="session")
def shared_breakable_postgres():
    """The server that tests which break servers share."""
    yield from new_server("DURABLE")


def new_server(settings):
    """Start a server, and remove it at the end; in CI it is an error that there is none."""
    from tests.postgres import binaries, server

    try:
        binaries.programs()
    except binaries.NoPostgres as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(f"NOT SHOWN HERE: everything about PostgreSQL. {error}")
    with server.PostgresServer(getattr(server, settings)) as new:
        yield new.create().start()


@pytest.fixture(scope="session")
def postgres_url(postgres):
    """An empty database for the tests of this process."""
    name = next(names)
    yield postgres.create_database(name)
    postgres.drop_database(name)


@pytest.fixture
def postgres_schema(postgres_url):
    """The name of a schema that is not there yet; whatever is in it goes away after the test."""
    from tests.postgres.server import run_sql

    name = next(names)
    yield name
    # An engine that was left open must show as an error, not as a test that hangs.
    run_sql(postgres_url, "SET lock_timeout = '60s'", f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


EMPTIED = """\
DO $$ DECLARE found text; BEGIN
    FOR found IN SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables
        WHERE schemaname = '{0}' AND tablename NOT IN ('redrive_migrations', 'ledger_changes') LOOP
        EXECUTE 'DELETE FROM ' || found;
    END LOOP;
    PERFORM setval(format('%I.%I', schemaname, sequencename), start_value, false) FROM pg_sequences
        WHERE schemaname = '{0}' AND last_value IS NOT NULL;
END $$"""


class Emptying:
    """Empties a schema, by a connection that is kept: to make one takes longer than to delete what a test leaves."""

    def __init__(self, url, schema):
        self._url = url
        self._statement = EMPTIED.format(schema)
        self._connection = None

    def __call__(self):
        if self._connection is None:
            self._connect()
        try:
            self._connection.execute(self._statement)
        except psycopg.OperationalError:
            if not self._connection.broken:
                raise
            self._connect()  # tests that end all connections to their database end this one too
            self._connection.execute(self._statement)

    def _connect(self):
        # An engine that was left open must show as an error, not as a test that hangs.
        self._connection = psycopg.connect(self._url, autocommit=True, options="-c lock_timeout=60s")

    def close(self):
        if self._connection is not None:
            self._connection.close()


@pytest.fixture(scope="session")
def lasting_schema(postgres_url):
    """The name of a schema for many tests, one after another: making one takes longer than most of them."""
    from tests.postgres.server import run_sql

    name = next(names)
    yield name
    run_sql(postgres_url, "SET lock_timeout = '60s'", f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


@pytest.fixture(scope="session")
def emptying(postgres_url, lasting_schema):
    """Empties the schema that lasts."""
    emptying = Emptying(postgres_url, lasting_schema)
    yield emptying
    emptying.close()


@pytest.fixture
def emptied_schema(lasting_schema, emptying):
    """The name of a schema in which there is nothing but, perhaps, empty tables."""
    yield lasting_schema
    emptying()


@pytest.fixture
def breakable_postgres(shared_breakable_postgres):
    """A server that a test may stop, kill and bring back; its writes are synced, as in production."""
    if not shared_breakable_postgres.is_running:
        shared_breakable_postgres.start()
    return shared_breakable_postgres


@pytest.fixture
def breakable_url(breakable_postgres):
    """A database in a server that may be broken; whatever the last test left in it is gone."""
    from tests.postgres.server import run_sql, terminate_backends

    url = breakable_postgres.url()
    terminate_backends(url)
    # The first connection may still have a limit that the last test has set.
    run_sql(url, "SET statement_timeout = 0", "ALTER DATABASE postgres RESET ALL", EMPTY)
    return url
