# SPDX-License-Identifier: MIT
"""Tokens, users and sessions, on both databases: what ends has ended, and no secret is kept."""

import asyncio
import sqlite3
from datetime import timedelta

import pytest

from redrive import connect
from redrive.access import Access, PrincipalKind, Role, rights_of
from redrive.access.credentials import hashed_password, is_password
from redrive.errors import (
    InvalidSetting,
    LastAdmin,
    SignInRequired,
    TokenNotFound,
    TooManyAttempts,
    UserConflict,
    UserNotFound,
)
from redrive.testing import ManualClock
from redrive.wiring import open_access
from tests.cheap_passwords import use_cheap_passwords

PASSWORD = "correct horse battery"  # noqa: S105 - for tests


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture(params=["sqlite", "postgres"])
async def access(request, tmp_path, clock, monkeypatch):
    use_cheap_passwords(monkeypatch)
    url = f"sqlite:///{tmp_path}/access.db"
    if request.param == "postgres":
        found, schema = request.getfixturevalue("postgres_url"), request.getfixturevalue("emptied_schema")
        url = f"{found}{'&' if '?' in found else '?'}schema={schema}"
    async with connect(url, clock=clock) as broker:
        yield open_access(broker)


VIEWER = rights_of("viewer")


# --- tokens


async def test_a_token_says_who_it_is_and_what_it_may(access):
    rights = rights_of("operator", ["orders", "shop.*"], may_see_bodies=True)
    made = await access.create_token("ci", rights, actor="ann")
    assert made.secret.startswith(f"{made.info.id}_")
    found = await access.token_principal(made.secret, "10.0.0.7")
    assert (found.name, found.role, found.queues) == ("token:ci", Role.OPERATOR, ("orders", "shop.*"))
    assert (found.may_see_bodies, found.address, found.kind) == (True, "10.0.0.7", PrincipalKind.TOKEN)


async def test_a_token_that_is_not_known_is_nobody(access):
    made = await access.create_token("ci", VIEWER)
    for secret in ("", "redrive_", made.info.id, made.secret[:-1], f"{made.secret}x", "\x00", "\udfff"):
        assert await access.token_principal(secret, "") is None


async def test_a_token_that_was_revoked_is_nobody_at_once(access):
    made = await access.create_token("ci", VIEWER)
    revoked = await access.revoke_token(made.info.id)
    assert revoked.revoked_at is not None
    assert await access.token_principal(made.secret, "") is None
    assert (await access.revoke_token(made.info.id)).revoked_at == revoked.revoked_at
    with pytest.raises(TokenNotFound):
        await access.revoke_token("redrive_none")


@pytest.mark.parametrize("access", ["sqlite"], indirect=True)
async def test_a_token_ends_when_its_time_is_over(access, clock):
    made = await access.create_token("ci", VIEWER, expires_in=timedelta(hours=1))
    clock.advance(3_599)
    assert await access.token_principal(made.secret, "") is not None
    clock.advance(2)
    assert await access.token_principal(made.secret, "") is None


@pytest.mark.parametrize("access", ["sqlite"], indirect=True)
async def test_the_last_use_is_noted_once_a_minute(access, clock):
    made = await access.create_token("ci", VIEWER)
    assert (await access.tokens())[0].used_at is None
    await access.token_principal(made.secret, "")
    first = (await access.tokens())[0].used_at
    clock.advance(30)
    await access.token_principal(made.secret, "")
    assert (await access.tokens())[0].used_at == first
    clock.advance(31)
    await access.token_principal(made.secret, "")
    assert (await access.tokens())[0].used_at > first


@pytest.mark.parametrize("access", ["sqlite"], indirect=True)
async def test_no_secret_is_in_the_database(access, tmp_path):
    made = await access.create_token("ci", VIEWER)
    await access.add_user("ann", PASSWORD, VIEWER)
    session = await access.sign_in("ann", PASSWORD, "10.0.0.7")
    with sqlite3.connect(tmp_path / "access.db") as connection:
        rows = [str(row) for table in ("tokens", "users", "sessions") for row in _rows(connection, f"access_{table}")]
    for secret in (made.secret, made.secret.removeprefix(f"{made.info.id}_"), PASSWORD, session.secret):
        assert secret not in "".join(rows)


def _rows(connection, table):
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    (found,) = [name for name in names if name.endswith(table)]
    return connection.execute(f'SELECT * FROM "{found}"')  # noqa: S608 - a name of ours


@pytest.mark.parametrize("name", ["", " ci", "a\nb", "x" * 101, None])
async def test_a_name_that_people_could_not_read_is_refused(access, name):
    with pytest.raises(InvalidSetting):
        await access.create_token(name, VIEWER)


def test_rights_are_checked():
    with pytest.raises(InvalidSetting, match="viewer, operator or admin"):
        rights_of("root")
    with pytest.raises(InvalidSetting, match="beginning and a star"):
        rights_of("viewer", ["a*b"])


# --- users and sessions


async def test_a_user_signs_in_and_out(access):
    await access.add_user("ann", PASSWORD, rights_of("admin"), actor="root")
    session = await access.sign_in("ann", PASSWORD, "10.0.0.7")
    found = await access.session_principal(session.secret, "10.0.0.8")
    assert (found.name, found.role, found.kind, found.address) == ("ann", Role.ADMIN, PrincipalKind.SESSION, "10.0.0.8")
    await access.sign_out(found.key)
    assert await access.session_principal(session.secret, "") is None


async def test_every_sign_in_has_a_secret_of_its_own(access):
    await access.add_user("ann", PASSWORD, VIEWER)
    one, other = [await access.sign_in("ann", PASSWORD, "") for _ in range(2)]
    assert one.secret != other.secret
    await access.sign_out(one.info.id)
    assert await access.session_principal(other.secret, "") is not None


async def test_the_answer_is_the_same_whatever_is_wrong(access):
    await access.add_user("ann", PASSWORD, VIEWER)
    texts = set()
    for name, password in (("ann", "wrong"), ("bob", PASSWORD), ("", ""), ("ann\x00", "x"), ("ann", "x" * 5_000)):
        with pytest.raises(SignInRequired) as refused:
            await access.sign_in(name, password, "10.0.0.7")
        texts.add(str(refused.value))
    assert len(texts) == 1


async def test_after_too_many_attempts_even_the_right_password_has_to_wait(access):
    await access.add_user("ann", PASSWORD, VIEWER)
    for _ in range(10):
        with pytest.raises(SignInRequired):
            await access.sign_in("ann", "wrong", "10.0.0.7")
    with pytest.raises(TooManyAttempts) as refused:
        await access.sign_in("ann", PASSWORD, "10.9.9.9")
    assert 1 <= refused.value.retry_after <= 900


async def test_attempts_from_one_address_are_counted_for_all_accounts(access):
    limits = {"address:10.0.0.7": 50}
    for _ in range(50):
        assert await access.store.attempt(limits, 900.0) == 0
    assert await access.store.attempt(limits, 900.0) > 0
    assert await access.store.attempt({"address:10.0.0.8": 50}, 900.0) == 0


@pytest.mark.parametrize("access", ["sqlite"], indirect=True)
async def test_attempts_are_forgotten_after_a_while_and_by_a_success(access, clock):
    await access.add_user("ann", PASSWORD, VIEWER)
    for _ in range(2):
        for _ in range(9):
            with pytest.raises(SignInRequired):
                await access.sign_in("ann", "wrong", "10.0.0.7")
        await access.sign_in("ann", PASSWORD, "10.0.0.7")
    for _ in range(10):
        with pytest.raises(SignInRequired):
            await access.sign_in("ann", "wrong", "10.0.0.7")
    clock.advance(901)
    await access.sign_in("ann", PASSWORD, "10.0.0.7")


async def test_many_attempts_at_once_are_no_more_than_allowed(access):
    async def guess():
        try:
            await access.sign_in("ann", "wrong", "10.0.0.7")
        except SignInRequired:
            return "looked at"
        except TooManyAttempts:
            return "refused"

    outcomes = await asyncio.gather(*(guess() for _ in range(20)))
    assert outcomes.count("looked at") == 10


@pytest.mark.parametrize("access", ["sqlite"], indirect=True)
async def test_a_session_ends_when_it_is_not_used_for_too_long(access, clock):
    await access.add_user("ann", PASSWORD, VIEWER)
    session = await access.sign_in("ann", PASSWORD, "")
    for _ in range(3):
        clock.advance(Access.IDLE_S - 1)
        assert await access.session_principal(session.secret, "") is not None
    clock.advance(Access.IDLE_S + 1)
    assert await access.session_principal(session.secret, "") is None


@pytest.mark.parametrize("end", ["password", "remove"])
async def test_a_new_password_or_the_end_of_a_user_ends_all_sessions(access, end):
    await access.add_user("ann", PASSWORD, VIEWER)
    session = await access.sign_in("ann", PASSWORD, "")
    await (access.set_password("ann", "another password") if end == "password" else access.remove_user("ann"))
    assert await access.session_principal(session.secret, "") is None
    with pytest.raises(SignInRequired):
        await access.sign_in("ann", PASSWORD, "")


async def test_other_rights_count_for_the_sessions_of_a_user_at_once(access):
    await access.add_user("ann", PASSWORD, VIEWER)
    session = await access.sign_in("ann", PASSWORD, "")
    changed = await access.set_rights("ann", rights_of("operator", ["orders"]))
    assert (changed.rights, changed.name) == (rights_of("operator", ["orders"]), "ann")
    assert [each.rights for each in await access.users()] == [changed.rights]
    principal = await access.session_principal(session.secret, "")
    assert (principal.role.value, principal.queues) == ("operator", ("orders",))


async def test_the_last_admin_stays_one_unless_it_is_meant(access):
    await access.add_user("ann", PASSWORD, rights_of("admin"))
    for less in (VIEWER, rights_of("admin", ["orders"])):
        with pytest.raises(LastAdmin):
            await access.set_rights("ann", less)
    assert (await access.set_rights("ann", rights_of("admin", may_see_bodies=True))).rights.may_see_bodies
    assert (await access.set_rights("ann", VIEWER, even_last=True)).rights == VIEWER


async def test_what_is_not_there_cannot_be_changed_and_what_is_there_not_added(access):
    await access.add_user("ann", PASSWORD, VIEWER)
    with pytest.raises(UserConflict):
        await access.add_user("ann", PASSWORD, VIEWER)
    for change in (access.set_password("bob", PASSWORD), access.set_rights("bob", VIEWER), access.remove_user("bob")):
        with pytest.raises(UserNotFound):
            await change
    assert [each.name for each in await access.users()] == ["ann"]


async def test_of_two_admins_that_are_removed_at_once_one_stays(access):
    for name in ("ann", "bob"):
        await access.add_user(name, PASSWORD, rights_of("admin"))
    outcomes = await asyncio.gather(*(access.remove_user(name) for name in ("ann", "bob")), return_exceptions=True)
    assert sorted(type(each) for each in outcomes if each) == [LastAdmin]
    (left,) = await access.users()
    await access.remove_user(left.name, even_last=True)
    assert await access.users() == []


async def test_a_name_with_a_colon_is_no_user(access):
    with pytest.raises(InvalidSetting, match="colon"):
        await access.add_user("token:ci", PASSWORD, VIEWER)


async def test_a_password_that_is_too_short_is_refused_and_not_shown(access):
    with pytest.raises(InvalidSetting, match="12 to 1,024") as refused:
        await access.add_user("ann", "hunter2", VIEWER)
    assert "hunter2" not in str(refused.value)


def test_a_password_is_kept_with_a_salt_of_its_own():
    one, other = hashed_password(PASSWORD), hashed_password(PASSWORD)
    assert one != other
    assert one.startswith("scrypt$32768$8$")
    assert is_password(PASSWORD, one)
    assert not is_password("wrong", one)
