# SPDX-License-Identifier: MIT
"""``redrive queues``, run as a person runs it."""

from pathlib import Path

import pytest


def test_a_declared_queue_is_listed(ok, orders):
    ok("send", orders, "one")
    ok("send", orders, "later", "--delay", "1h")
    heading, line = ok("queues").splitlines()
    assert heading.split() == ["queue", "ready", "scheduled", "locked", "deferred", "dead", "oldest"]
    assert line.split()[:6] == ["orders", "1", "1", "-", "-", "-"]


def test_what_redrive_keeps_for_itself_is_shown_on_request(ok, read, orders):
    ok("queues", "declare", "redrive.own")
    assert [each["name"] for each in read("queues")] == [orders]
    assert [each["name"] for each in read("queues", "--all")] == [orders, "redrive.own"]
    assert "redrive.own" in ok("queues", "--all")
    assert "redrive.own" not in ok("queues")


def test_where_redrive_has_only_its_own_queues_it_says_so(ok):
    ok("queues", "declare", "redrive.own")
    assert "no queues yet except 1 that Redrive keeps for itself (--all); add one" in ok("queues")


def test_dead_letters_are_shown_wherever_they_are(ok, read, orders):
    ok("queues", "declare", "redrive.own")
    ok("send", "redrive.own", "stuck")
    ok("receive", "redrive.own", "--dead-letter", "NoAddress")
    assert [each["name"] for each in read("queues")] == [orders, "redrive.own"]


def test_no_queues_yet_says_how_to_add_one(ok, orders):
    ok("queues", "delete", orders, "--yes")
    assert "redrive queues declare NAME" in ok("queues")


@pytest.mark.usefixtures("orders")
def test_json_has_counts_and_settings(read):
    (queue,) = read("queues")
    assert queue["name"] == "orders"
    assert queue["ready"] == 0
    assert queue["settings"]["max_delivery_count"] == 3
    assert queue["oldest_at"] is None


def test_a_missing_database_is_not_made_by_looking(refused):
    assert "redrive queues declare NAME" in refused("queues")
    assert not Path("redrive.db").exists()


@pytest.mark.parametrize("before", [True, False])
def test_the_url_may_stand_before_or_after_the_subcommand(ok, before):
    url = ("--url", "sqlite:///elsewhere.db")
    ok("queues", *url, "declare", "orders") if before else ok("queues", "declare", "orders", *url)
    assert Path("elsewhere.db").exists()
    assert not Path("redrive.db").exists()


def test_the_url_may_come_from_the_environment(ok, monkeypatch):
    monkeypatch.setenv("REDRIVE_URL", "sqlite:///elsewhere.db")
    ok("queues", "declare", "orders")
    assert Path("elsewhere.db").exists()


def test_json_may_stand_before_the_subcommand(ok):
    assert '"name": "orders"' in ok("queues", "--json", "declare", "orders")


def test_every_setting_can_be_stated(read):
    declared = read(
        *("queues", "declare", "orders", "--lock-duration", "2m", "--max-delivery-count", 5, "--default-ttl", "1h"),
        *("--dead-letter-on-expiration", "yes", "--auto-delete-on-idle", "1d", "--duplicate-detection", 30),
        *("--requires-session", "yes", "--max-message-bytes", 1000, "--journey", "0.01"),
    )
    assert declared["settings"] == {
        "lock_duration": 120.0,
        "max_delivery_count": 5,
        "default_ttl": 3600.0,
        "dead_letter_on_expiration": True,
        "auto_delete_on_idle": 86400.0,
        "duplicate_detection": 30.0,
        "requires_session": True,
        "max_message_bytes": 1000,
        "journey": 0.01,
    }


def test_update_changes_what_is_stated_and_nothing_else(read, ok, orders):
    ok("queues", "update", orders, "--default-ttl", "5m")
    ok("queues", "update", orders, "--lock-duration", "30s", "--default-ttl", "none")
    settings = read("queues", "show", orders)["settings"]
    assert (settings["lock_duration"], settings["default_ttl"], settings["max_delivery_count"]) == (30.0, None, 3)


def test_show_tells_settings_in_words(ok, orders):
    shown = ok("queues", "show", orders)
    assert "lock_duration              60 s" in shown
    assert "default_ttl                none" in shown
    assert "requires_session           no" in shown


def test_declaring_with_other_settings_names_the_command_that_changes_them(refused, orders):
    said = refused("queues", "declare", orders, "--max-delivery-count", 4, "--requires-session", "yes", status=6)
    assert "max_delivery_count is 3, not 4" in said
    assert "redrive queues update orders --max-delivery-count 4 --requires-session yes" in said


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("declare", "a b"), 2, "letters, digits"),
        (("update", "orders", "--lock-duration", "10m"), 2, "to 300 seconds, or a timedelta; for longer work renew"),
        (("update", "orders", "--lock-duration", "soon"), 2, "write seconds as a number"),
        (("update", "orders", "--requires-session", "maybe"), 2, "write yes or no"),
        (("update", "nothing", "--lock-duration", "1m"), 5, "redrive queues declare"),
        (("show", "nothing"), 5, "there is no queue 'nothing'"),
        (("delete", "nothing", "--yes"), 5, "there is no queue 'nothing'"),
        (("delete", "orders"), 1, "add --yes"),
    ],
)
@pytest.mark.usefixtures("orders")
def test_a_mistake_is_named_with_its_remedy(refused, arguments, status, said):
    assert said in refused("queues", *arguments, status=status)


def test_a_url_that_is_none_is_refused(refused):
    assert "sqlite:///relative.db" in refused("queues", "declare", "orders", "--url", "redis://localhost", status=2)


def test_delete_asks_a_person_first(run, orders, monkeypatch):
    monkeypatch.setattr("redrive.cli.output.prompt.is_interactive", lambda: True)
    asked = run("queues", "delete", orders, stdin="n\n")
    assert asked.exit_code == 1
    assert "Delete queue orders and 0 messages?" in asked.stderr
    assert run("queues", "delete", orders, stdin="y\n").exit_code == 0


def test_delete_in_json_says_how_many_messages_went(read, ok, orders):
    ok("send", orders, "one")
    assert read("queues", "delete", orders, "--yes") == {"queue": "orders", "deleted": True, "messages": 1}


def test_purge_removes_what_is_ready(read, ok, orders):
    ok("send", orders, "x", "--count", 250)
    ok("send", orders, "later", "--delay", "1h")
    assert ok("queues", "purge", orders, "--yes") == "removed 250 messages from orders\n"
    assert (read("queues", "show", orders)["ready"], read("queues", "show", orders)["scheduled"]) == (0, 1)


def test_purging_nothing_asks_nobody(ok, orders):
    assert ok("queues", "purge", orders) == "removed 0 messages from orders\n"
