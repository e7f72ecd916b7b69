# SPDX-License-Identifier: MIT
"""The error for a user who lacks a right names the right, and the user who can grant it."""

import re

import pytest

from redrive import connect
from redrive.engines.postgres.grants import missing_grants
from redrive.errors import UsageError
from tests.postgres.fixtures import names
from tests.postgres.server import PostgresServer, run_sql, url_of

MAY_ALL = {"user": "shop", "owner": "redrive", "may_use": True, "may_write": True, "may_number": True, "may_call": True}
TABLES = "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA"


@pytest.mark.parametrize(
    ("lacking", "expected"),
    [
        ({"may_use": False}, 'GRANT USAGE ON SCHEMA "redrive" TO shop'),
        ({"may_write": False}, f'GRANT {TABLES} "redrive" TO shop'),
        ({"may_number": False}, 'GRANT USAGE ON ALL SEQUENCES IN SCHEMA "redrive" TO shop'),
        ({"may_call": False}, 'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "redrive" TO shop'),
        ({}, "open the broker once as redrive"),
        ({"owner": None}, 'CREATE SCHEMA "redrive" AUTHORIZATION shop'),
    ],
)
def test_the_right_that_is_missing_is_named_with_the_statement_that_grants_it(lacking, expected):
    assert expected in missing_grants(MAY_ALL | lacking, '"redrive"')


@pytest.fixture
def roles(postgres):
    """A database in which one role owns the schema; returns its URL for a role."""
    if not isinstance(postgres, PostgresServer):
        pytest.skip("NOT SHOWN HERE: the error for missing rights. Roles of another server are not ours to make")
    name, owner, user = next(names), next(names), next(names)
    url = postgres.create_database(name)
    run_sql(url, f"CREATE ROLE {owner} LOGIN", f"CREATE ROLE {user} LOGIN")
    yield url, owner, user, lambda role: url_of(name, host=postgres.folder, user=role)
    run_sql(url, *[f"DROP OWNED BY {role} CASCADE" for role in (user, owner)], f"DROP ROLE {owner}, {user}")


async def use(url):
    """Do what a program does."""
    async with connect(url) as broker:
        await broker.declare("orders")
        await broker.send("orders", b"")
        (found,) = await broker.receive("orders")
        await found.complete()


async def test_whoever_runs_what_the_error_says_gets_on(roles):
    url, owner, user, as_role = roles
    with pytest.raises(
        UsageError, match=f"let a user who may do so run: CREATE SCHEMA .* AUTHORIZATION {owner}"
    ) as refused:
        await use(as_role(owner))
    run_sql(url, statement(refused.value))
    await use(as_role(owner))
    ran = []
    while (refusal := await refusal_of(as_role(user))) is not None:
        assert f"let {owner} run: GRANT" in str(refusal)
        ran.append(statement(refusal))
        run_sql(as_role(owner), *ran[-1].split("; "))
        assert len(ran) < 5
    assert ran
    assert len(set(ran)) == len(ran)


async def test_a_right_that_is_taken_away_later_is_named_too(roles):
    url, owner, _, as_role = roles
    run_sql(url, f"CREATE SCHEMA redrive AUTHORIZATION {owner}")
    async with connect(as_role(owner)) as broker:
        await broker.declare("orders")
        await broker.send("orders", b"")
        run_sql(url, f"REVOKE DELETE ON redrive.messages FROM {owner}")
        with pytest.raises(UsageError, match=f'GRANT {TABLES} "redrive" TO {owner}'):
            await broker.purge("orders")


async def refusal_of(url):
    """Return the error that tells of a missing right, if there is one."""
    try:
        await use(url)
    except UsageError as error:
        return error
    return None


def statement(error):
    """Return what an error tells somebody to run."""
    return re.search(r"run: (.*?) \(", str(error))[1]
