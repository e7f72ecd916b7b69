# SPDX-License-Identifier: MIT
"""Commands through a server say what they say on the database, and do what they do there."""

import asyncio
import json

import pytest

from redrive.routes.route_file import route_of
from tests.commands import run_command
from tests.server.api.pipeline_functions import make_pipeline


def test_lists_are_the_same_through_a_server(both, fail):
    first, *_ = fail()
    assert [each["name"] for each in both("queues")] == ["error", "orders"]
    assert both("queues", "show", "orders")["name"] == "orders"
    assert len(both("failed", "list")) == 3
    assert both("failed", "count", "queue:orders") == {"count": 3}
    assert both("failed", "count", "--by-status", "status:any")["unresolved"] == 3
    (group,) = both("failed", "groups")
    assert group["count"] == 3
    assert both("failed", "list", "--group", group["id"])[0]["id"] == first.id
    assert both("failed", "show", first.id)["message"]["body"] == "one"
    assert both("operations", "list") == []


def test_a_failed_message_is_found_by_its_number(both, fail):
    _, second, _ = fail()
    assert both("failed", "show", "2")["id"] == second.id
    assert [each["number"] for each in both("failed", "list", "--after", "1", "--limit", "1")] == [2]
    newest = both("failed", "list", "--order", "last-failed", "source:error")
    assert [each["number"] for each in newest] == [3, 2, 1]


def test_a_group_is_assigned_and_snoozed_through_a_server(there, both, fail):
    first, *_ = fail()
    assert there("failed", "assign", first.group, "ann").exit_code == 0
    assert "is snoozed until" in there("failed", "snooze", first.group, "4h", "--above", "5").stdout
    (group,) = both("failed", "groups")
    assert (group["state"]["owner"], group["state"]["is_snoozed"]) == ("ann", True)
    assert there("failed", "wake", first.group).exit_code == 0
    assert there("failed", "assign", first.group, "--remove").exit_code == 0
    (group,) = both("failed", "groups")
    assert (group["state"]["owner"], group["state"]["is_snoozed"]) == ("", False)
    assert there("failed", "wake", "none").exit_code != 0


def test_a_dry_run_is_the_same_through_a_server(both, fail):
    fail()
    assert both("recover", "queue:orders", "--dry-run")["free"] == 3
    changed = both("recover", "queue:orders", "--set-header", "shop=north", "--preview")
    assert changed["previews"][0]["changes"]


def test_an_operation_is_requested_and_left_to_the_server(there, both, fail):
    fail()
    asked = there("recover", "queue:orders", "--yes", "--detach", "--reason", "it is back", "--json")
    assert asked.exit_code == 0, asked.output
    assert json.loads(asked.stdout)["reason"] == "it is back"
    (operation,) = both("operations", "list")
    assert operation["state"] == "running"
    assert both("operations", "show", "1")["progress"]["total"] == 3
    assert there("operations", "pause", "1").exit_code == 0
    assert there("operations", "set-rate", "1", "5").exit_code == 0
    assert both("operations", "show", "1")["plan"]["rate"] == 5.0
    assert there("operations", "cancel", "1", "--yes").exit_code == 0
    assert both("operations", "show", "1")["state"] == "cancelled"


def test_a_command_watches_an_operation_that_the_server_works_on(there, both, fail, desk):
    fail()
    opened, run = desk

    async def begin():
        return asyncio.get_running_loop().create_task(opened.recovery.run())

    working = run(begin())
    archived = there("archive", "queue:orders", "--yes", "--json")
    assert archived.exit_code == 0, archived.output
    assert json.loads(archived.stdout)["progress"]["done"] == 3
    assert both("failed", "count", "status:archived") == {"count": 3}
    working.get_loop().call_soon_threadsafe(opened.recovery.stop)


def test_what_happened_and_what_needs_a_person_is_the_same_through_a_server(there, both, fail, desk):
    opened, run = desk
    first, *_ = fail()
    run(opened.history.flush())
    assert [each["name"] for each in both("history", "sent")] == ["error", "orders"]
    assert sum(filter(None, both("history", "sent", "--name", "orders", "--span", "1h")[0]["values"])) == 3
    assert both("workers")["unread"] == []
    assert both("attention")["attention"][0]["rule"] == "new-group"
    assert both("attention", "--figures")["figures"]["unresolved"] == 3
    found = json.loads(there("trace", first.message_id, "--json").stdout)
    assert [each["kind"] for each in found["nodes"]] == ["message", "failure"]
    assert "orders" in there("trace", first.message_id).stdout
    assert there("history").exit_code == there("workers").exit_code == there("attention").exit_code == 0
    unknown = there("trace", "none")
    assert (unknown.exit_code, "none" in unknown.stderr) == (3, True)
    refused = there("attention", "--store", "sqlite:///other.db")
    assert refused.exit_code == 2


def test_routes_are_the_same_through_a_server(there, both, fail, desk):
    opened, run = desk
    fail()
    parts = {"source": {"kind": "queue", "queue": "orders"}, "sender": {"kind": "queue", "queue": "error"}}
    for name in ("copy", "other"):
        run(opened.routes.add(route_of({"name": name, "filters": [{"kind": "sample", "rate": 0.5}], **parts})))
    assert [each["name"] for each in both("routes")] == ["copy", "other"]
    assert both("routes", "show", "copy")["history"][0]["version"] == 1
    assert both("routes", "dead", "copy") == []
    for verb, state in (("pause", "paused"), ("resume", "running")):
        assert json.loads(there("routes", verb, "copy", "--json").stdout)["state"] == state
        assert both("routes", "show", "copy")["state"] == state
    assert "copy" in there("routes", "show", "copy").stdout
    removed = [
        json.loads(there("routes", *verb, "--json").stdout)
        for verb in (("drain", "copy"), ("remove", "other", "--yes"))
    ]
    assert [each["state"] for each in removed] == ["removed", "removed"]
    assert both("routes") == []
    assert there("routes", "show", "copy").exit_code == 3
    run(opened.routes.add(route_of({"name": "copy", **parts})))
    assert there("routes", "test", "copy", "{}").exit_code == there("routes", "tap", "copy").exit_code == 1


def test_pipelines_are_the_same_through_a_server(there, both, desk):
    opened, run = desk
    run(make_pipeline(opened, [b"one", b"unknown", b"unknown ", b"lab-1"]))
    (pipeline,) = both("pipeline")
    assert pipeline["name"] == both("pipeline", "show", "reports")["name"] == "reports"
    assert both("pipeline", "tasks", "reports", "--state", "unknown", "--limit", "1")
    first, second = (each["id"] for each in both("pipeline", "stuck") if each["state"] == "unknown")
    assert both("pipeline", "show", first)["shipments"]
    assert both("pipeline", "trace", first)["steps"]
    assert both("pipeline", "history") == both("pipeline", "history", "reports")
    for verb, is_held in (("hold", True), ("release", False)):
        assert json.loads(there("pipeline", verb, "reports", "lab", "--json").stdout)["is_held"] is is_held
    assert there("pipeline", "resolve", first, "--item", "1", "--as", "sent").exit_code == 0
    assert there("pipeline", "cancel", second).exit_code == 0
    assert both("pipeline", "show", second)["state"] == "cancelled"
    for command in (("tasks", "odd"), ("show", "odd"), ("trace", "odd")):
        assert there("pipeline", *command).exit_code == 3
    assert there("pipeline").exit_code == there("pipeline", "show", "reports").exit_code == 0
    assert there("pipeline", "slots", "reports", "lab").exit_code == 1


def test_an_operation_is_found_by_its_key_however_old_it_is(there, fail, desk):
    opened, run = desk
    fail()
    assert there("recover", "queue:orders", "--yes", "--detach", "--key", "first", "--json").exit_code == 0
    for _ in range(101):  # more than a page
        run(opened.recovery.archive("queue:none"))
    again = there("recover", "queue:orders", "--yes", "--detach", "--key", "first", "--json")
    assert json.loads(again.stdout)["number"] == 1


def test_queues_are_declared_changed_and_deleted_through_a_server(there, both):
    assert there("queues", "declare", "orders", "--max-delivery-count", 3).exit_code == 0
    assert there("queues", "update", "orders", "--lock-duration", "2m").exit_code == 0
    assert both("queues", "show", "orders")["settings"]["lock_duration"] == 120.0
    refused = there("queues", "declare", "orders", "--max-delivery-count", 5)
    assert refused.exit_code == 6
    assert "max_delivery_count" in refused.stderr
    assert there("queues", "delete", "orders", "--yes").exit_code == 0
    assert both("queues") == []


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (("failed", "show", "f" * 32), 3),
        (("operations", "show", "99"), 3),
        (("queues", "show", "nosuch"), 5),
        (("failed", "list", "colour:red"), 2),
    ],
)
def test_errors_end_a_command_as_they_do_on_the_database(there, here, command, status):
    through, direct = there(*command), here(*command)
    assert through.exit_code == direct.exit_code == status, through.output
    assert through.stdout == ""
    assert through.stderr


def test_a_command_that_needs_the_database_says_so(there):
    refused = there("receive", "orders", "--complete")
    assert refused.exit_code == 1
    assert "--url" in refused.stderr


def test_a_server_that_does_not_answer_is_named():
    refused = run_command("--server", "http://127.0.0.1:9", "queues")
    assert refused.exit_code == 1
    assert "redrive serve" in refused.stderr


def test_a_token_is_not_sent_where_everybody_could_read_it(monkeypatch):
    monkeypatch.setenv("REDRIVE_TOKEN", "secret-token")
    refused = run_command("--server", "http://redrive.example.com", "queues")
    assert refused.exit_code == 2
    assert "https" in refused.stderr
    assert "secret-token" not in refused.output


def test_messages_are_sent_looked_at_and_removed_through_a_server(there, both):
    assert there("queues", "declare", "orders").exit_code == 0
    for body in ("one", "two"):
        sent = there("send", "orders", body, "--json")
        assert sent.exit_code == 0, sent.output
        assert json.loads(sent.stdout)["sent"] == 1
    assert [each["body"] for each in both("peek", "orders")] == ["one", "two"]
    later = json.loads(there("send", "orders", "later", "--delay", "1h", "--json").stdout)["first_sequence"]
    assert [each["state"] for each in both("peek", "orders", "--state", "scheduled")] == ["scheduled"]
    assert there("cancel", "orders", later).exit_code == 0
    assert json.loads(there("queues", "purge", "orders", "--yes", "--json").stdout)["removed"] == 2


def test_dead_letters_are_seen_and_sent_again_through_a_server(there, here, both):
    assert here("queues", "declare", "orders").exit_code == 0
    assert here("send", "orders", "one").exit_code == 0
    assert here("receive", "orders", "--dead-letter", "NoAddress").exit_code == 0
    (dead,) = both("dead", "list", "orders")
    assert dead["dead_letter"]["reason"] == "NoAddress"
    number = dead["sequence"]
    assert json.loads(there("dead", "resubmit", "orders", number, "--yes", "--json").stdout)["resubmitted"] == 1
    assert there("dead", "purge", "orders", number, "--yes").exit_code != 0
    assert [each["body"] for each in both("peek", "orders")] == ["one"]


def test_notes_redirects_and_the_audit_trail_are_the_same_through_a_server(there, both, fail):
    first, *_ = fail()
    assert there("failed", "note", first.id, "bug 4711").exit_code == 0
    assert both("failed", "show", first.id)["notes"][0]["text"] == "bug 4711"
    assert there("queues", "declare", "orders-v2").exit_code == 0
    assert there("redirects", "add", "orders", "orders-v2").exit_code == 0
    assert both("redirects", "list") == [{"from": "orders", "to": "orders-v2"}]
    assert "redirect" in {each["action"] for each in both("operations", "trail")}
    assert {each["action"] for each in both("operations", "trail", "--action", "note", "--since", "1d")} == {"note"}


def test_tokens_users_and_redactions_are_the_same_through_a_server(there, here, both):
    made = json.loads(there("tokens", "create", "ci", "--queue", "orders", "--expires", "1h", "--json").stdout)
    assert both("tokens")[0]["id"] == made["id"]
    assert there("tokens", "revoke", made["id"]).exit_code == 0
    for name in ("ann", "bob"):
        assert there("users", "add", name, "--role", "admin", stdin="correct horse battery\n").exit_code == 0
    assert there("users", "password", "ann", stdin="another password\n").exit_code == 0
    assert there("users", "rights", "bob", "--role", "operator", "--queue", "orders").exit_code == 0
    assert both("users")[1]["queues"] == ["orders"]
    assert there("users", "remove", "bob", "--yes").exit_code == 0
    for run in (there, here):
        refused = run("users", "remove", "ann", "--yes")
        assert (refused.exit_code, "last admin" in refused.stderr) == (6, True)
    assert [each["name"] for each in both("users")] == ["ann"]
    assert there("users", "remove", "ann", "--yes", "--even-last").exit_code == 0
    assert there("redactions", "add", "pattern", "secret").exit_code == 0
    assert [each["value"] for each in both("redactions")] == ["secret"]
    assert here("queues", "declare", "orders").exit_code == 0
    assert here("send", "orders", "a secret").exit_code == 0
    assert [each["body"] for each in both("peek", "orders")] == ["a [hidden]"]
    assert there("redactions", "remove", "1").exit_code == 0
    assert [each["body"] for each in both("peek", "orders")] == ["a secret"]


def test_topics_are_the_same_through_a_server(here, both):
    assert here("topics", "declare", "events").exit_code == 0
    assert here("topics", "subscribe", "events", "billing", "--equals", "region=eu").exit_code == 0
    (topic,) = both("topics")
    assert topic["subscriptions"][0]["rule"]["equals"] == {"region": "eu"}
