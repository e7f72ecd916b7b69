# SPDX-License-Identifier: MIT
"""``redrive tokens`` and ``redrive users``."""

import pytest

PASSWORD = "correct horse battery"  # noqa: S105 - for tests


def test_a_token_is_shown_once_and_listed_without_its_secret(ok, read, run):
    made = run("tokens", "create", "ci", "--role", "operator", "--queue", "orders", "--expires", "90d")
    secret = made.stdout.strip()
    assert secret.startswith("redrive_")
    assert "cannot be shown again" in made.stderr
    (listed,) = read("tokens")
    assert secret.startswith(f"{listed['id']}_")
    assert (listed["name"], listed["role"], listed["queues"]) == ("ci", "operator", ["orders"])
    assert secret not in ok("tokens")


def test_a_revoked_token_is_listed_as_revoked(ok, read):
    made = read("tokens", "create", "ci")
    assert ok("tokens", "revoke", made["id"]) == f"token {made['id']} (ci) is revoked\n"
    assert read("tokens")[0]["revoked_at"] is not None


def test_what_is_wrong_is_named(refused, ok):
    assert "viewer, operator or admin" in refused("tokens", "create", "ci", "--role", "root", status=2)
    ok("queues", "declare", "orders")
    assert "there is no token 'none'" in refused("tokens", "revoke", "none", status=3)
    assert "there is no user 'ann'" in refused("users", "remove", "ann", "--yes", status=3)
    assert "no tokens yet" in ok("tokens")
    assert "no users yet" in ok("users")


def test_a_user_is_added_changed_and_removed(ok, read, run):
    assert ok("users", "add", "ann", "--role", "admin", stdin=f"{PASSWORD}\n") == "user ann is added, as admin\n"
    assert run("users", "add", "ann", stdin=f"{PASSWORD}\n").exit_code == 6
    assert [each["name"] for each in read("users")] == ["ann"]
    assert "ann" in ok("users")
    assert "another password" in ok("users", "password", "ann", stdin="another password\n")
    assert ok("users", "remove", "ann", "--yes", "--even-last") == "user ann is removed\n"
    assert read("users") == []


@pytest.mark.parametrize("password", ["", "short"])
def test_a_password_that_is_too_short_is_refused(run, password):
    ran = run("users", "add", "ann", stdin=f"{password}\n")
    assert ran.exit_code == 2
    assert "must have 12 to 1,024 characters" in ran.stderr
