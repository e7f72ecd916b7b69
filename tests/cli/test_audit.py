# SPDX-License-Identifier: MIT
"""Changes that commands make are in the audit trail, with who made them."""

import pytest


@pytest.fixture
def entries(read, monkeypatch):
    """Read the trail about something, the oldest entry first."""
    monkeypatch.setenv("REDRIVE_ACTOR", "ann")

    def about(subject):
        found = read("operations", "trail", "--subject", subject)
        assert {each["actor"] for each in found} <= {"ann"}
        return [(each["action"], each["outcome"].partition(":")[0]) for each in reversed(found)]

    return about


def both(action):
    return [(action, "begun"), (action, "done")]


def test_changes_of_queues_are_in_the_trail(ok, run, entries):
    ok("queues", "declare", "orders")
    ok("queues", "update", "orders", "--max-delivery-count", 4)
    assert run("queues", "update", "orders", "--lock-duration", "1000d").exit_code != 0
    ok("queues", "purge", "orders", "--yes")
    ok("dead", "resubmit", "orders", "--yes")
    ok("queues", "delete", "orders", "--yes")
    found = entries("queue:orders")
    refused = [("queues.update", "begun"), ("queues.update", "refused")]
    assert found[:6] == [*both("queues.declare"), *both("queues.update"), *refused]
    assert found[6:] == [*both("messages.purge"), *both("messages.resubmit"), *both("queues.delete")]


def test_looking_is_not_in_the_trail(ok, read, orders):
    before = read("operations", "trail")
    ok("queues")
    ok("queues", "show", orders)
    ok("peek", orders)
    assert read("operations", "trail") == before


def test_changes_of_topics_are_in_the_trail(ok, entries):
    ok("topics", "declare", "news")
    ok("topics", "subscribe", "news", "all")
    ok("topics", "unsubscribe", "news", "all", "--yes")
    ok("topics", "delete", "news", "--yes")
    assert entries("topic:news") == 4 * both("topics.write")


def test_changes_of_routes_are_in_the_trail(ok, read, entries, orders, tmp_path):
    (tmp_path / "routes.toml").write_text(
        f'[routes.big]\nsource = {{ kind = "queue", queue = "{orders}" }}\nsender = {{ kind = "file", path = "x" }}\n'
    )
    ok("routes", "add", tmp_path / "routes.toml")
    ok("routes", "pause", "big", "--reason", "it moves")
    ok("routes", "resume", "big")
    assert entries("route:big") == [*both("routes.write"), *both("routes.change"), *both("routes.change")]
    assert read("operations", "trail", "--action", "routes.change")[2]["reason"] == "it moves"


def test_changes_of_tokens_and_users_are_in_the_trail(ok, run, entries):
    ok("tokens", "create", "ci", "--role", "viewer")
    ok("users", "add", "carl", stdin="a long password\n")
    ok("users", "remove", "carl", "--yes")
    assert run("users", "remove", "carl", "--yes").exit_code != 0
    assert entries("token:ci") == both("tokens.write")
    assert entries("user:carl") == [
        *both("users.write"),
        *both("users.write"),
        ("users.write", "begun"),
        ("users.write", "refused"),
    ]


def test_the_trail_is_in_the_store_that_the_environment_names(ok, run, read, tmp_path, monkeypatch):
    ok("queues", "declare", "orders")
    monkeypatch.setenv("REDRIVE_STORE", f"sqlite:///{tmp_path / 'failures.db'}")
    assert "is not in its audit trail" in run("queues", "declare", "billing").stderr
    ok("ingest")
    ok("queues", "declare", "mail")
    assert {each["subject"] for each in read("operations", "trail")} == {"queue:mail"}


def test_entries_are_found_by_who_and_when(ok, read, monkeypatch):
    for actor in ("ann", "bob"):
        monkeypatch.setenv("REDRIVE_ACTOR", actor)
        ok("queues", "declare", f"of-{actor}")
    assert {each["subject"] for each in read("operations", "trail", "--by", "bob")} == {"queue:of-bob"}
    assert len(read("operations", "trail", "--since", "1h", "--action", "queues.declare")) == 4
    assert read("operations", "trail", "--until", "1h") == []
    assert read("operations", "trail", "--since", "2099-01-01") == []
