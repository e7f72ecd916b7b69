# SPDX-License-Identifier: MIT
"""``redrive failed`` and ``redrive ingest``, run as a person runs them."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

TRACE = 'Traceback (most recent call last):\n  File "shop.py", line 3, in ship\nValueError: no address'


@pytest.fixture
def fail(ok):
    """Put a message into the error queue as a worker does."""

    def failing(body, *options, queue="orders", kind="ValueError", said="no address"):
        told = {"queue": queue, "at": "2026-11-01T10:00:00+00:00", "exception-type": kind, "exception-message": said}
        told["stack-trace"] = TRACE.replace("ValueError", kind)
        headers = [f"--header=redrive-failed-{name}={value}" for name, value in told.items()]
        ok("send", "error", body, *headers, *options)

    ok("queues", "declare", "orders")
    ok("queues", "declare", "error")
    return failing


@pytest.fixture
def failures(fail):
    """Four failures, of two kinds, in two queues."""
    fail('{"id": 1, "price": 1.10}', "--id", "first", "--header", "customer=7")
    fail("two", "--id", "second")
    fail("three", "--id", "third", kind="shop.OutOfStock", said="none left")
    fail("four", "--id", "fourth", queue="billing", said="no such customer")


@pytest.mark.usefixtures("failures")
def test_list_reads_the_error_queue_first_and_says_so(run, read):
    ran = run("failed", "list")
    assert ran.stdout.split()[:6] == ["number", "status", "queue", "failed", "times", "why"]
    assert "ValueError: no address" in ran.stdout
    assert "OutOfStock: none left" in ran.stdout
    assert "moved 4 failures from error into the store (--no-ingest leaves them there)" in ran.stderr
    assert run("failed", "list").stderr == ""
    assert read("peek", "error") == []


@pytest.mark.usefixtures("failures")
def test_failures_stay_where_they_are_if_that_is_wanted(ok, read):
    assert read("failed", "list", "--no-ingest") == []
    assert len(read("peek", "error")) == 4
    assert ok("failed", "count") == "4\n"


@pytest.mark.usefixtures("failures")
def test_list_in_json_has_stable_names_and_iso_times(read):
    first = read("failed", "list", "message:first")[0]
    group = first.pop("group")
    assert len(group) == 16
    assert first == {
        "number": 1,
        "id": first["id"],
        "message_id": "first",
        "queue": "orders",
        "status": "unresolved",
        "message_type": "",
        "exception_type": "ValueError",
        "exception_message": "no address",
        "attempts": 1,
        "first_failed_at": "2026-11-01T10:00:00+00:00",
        "failed_at": "2026-11-01T10:00:00+00:00",
        "operation": None,
        "edit_of": None,
        "edited_as": None,
        "source": "error",
    }


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["queue:billing"], ["fourth"]),
        (["queue:orders", "exception:ValueError"], ["first", "second"]),
        (["queue:orders exception:ValueError"], ["first", "second"]),
        (["--queue", "orders", "--exception", "shop.*"], ["third"]),
        (["--queue", "orders", "--queue", "billing", "--text", "no such"], ["fourth"]),
        (["no such customer"], ["fourth"]),
        (["--status", "resolved,archived"], []),
        (["--since", "2026-11-01T10:00Z", "--until", "2026-11-01T10:01Z", "--message", "second"], ["second"]),
        (["--until", "2026-10-01"], []),
        (["age>1h"], ["first", "second", "third", "fourth"]),
        (["age<1m"], []),
        (["--since", "1m"], []),
        (["--until", "1h", "--message", "second"], ["second"]),
        (["--id", "2"], ["second"]),
        (["--order", "newest", "--limit", "1"], ["fourth"]),
        (["--order", "last-failed", "--limit", "2"], ["fourth", "third"]),
        (["--order", "last-failed", "--after", "2026-11-01T10:00:00Z/3"], ["second", "first"]),
        (["source:error", "queue:orders", "header.none:*"], []),
        (["--after", "2"], ["third", "fourth"]),
    ],
)
@pytest.mark.usefixtures("failures")
def test_options_and_terms_are_one_filter(read, arguments, found):
    assert [each["message_id"] for each in read("failed", "list", *arguments)] == found


@pytest.mark.usefixtures("failures")
def test_list_goes_on_where_it_stopped(run):
    assert "--after 2" in run("failed", "list", "--limit", 2).stderr
    last = run("failed", "list", "--limit", 2, "--order", "last-failed")
    assert "--after 2026-11-01T10:00:00Z/3" in last.stderr


@pytest.mark.usefixtures("failures")
def test_an_order_or_a_place_that_is_none_is_refused(run):
    for arguments in (["--order", "largest"], ["--after", "x"], ["--order", "last-failed", "--after", "2"]):
        assert run("failed", "list", *arguments).exit_code == 2


@pytest.mark.usefixtures("failures")
def test_a_filter_that_cannot_be_understood_is_pointed_at(run):
    ran = run("failed", "list", "queue:orders", "exeption:ValueError")
    assert ran.exit_code == 2, "and nothing is read"
    assert ran.stderr.splitlines()[0] == "error: the filter is not valid"
    assert ran.stderr.splitlines()[1] == "  queue:orders exeption:ValueError"
    assert ran.stderr.splitlines()[2].startswith(" " * 15 + "^" * 19 + " there is no key 'exeption'")
    assert ran.stderr.rstrip().endswith("did you mean 'exception'?")


@pytest.mark.usefixtures("fail")
def test_nothing_failed_is_good_news(ok):
    assert ok("failed", "list") == "no failed messages\n"
    assert ok("failed", "groups", "queue:orders") == "no failed message matches queue:orders\n"


def test_dead_letters_that_nobody_has_read_are_named(run, ok, read, orders):
    ok("send", orders, "x")
    ok("receive", orders, "--dead-letter", "InvalidJson")
    for command in ("list", "groups", "count"):
        assert "1 dead letter of orders is not read: add --dead" in run("failed", command).stderr
    assert run("failed", "list").stdout == "no failed messages\n"
    assert run("failed", "list", "--json").stdout == "[]\n", "a hint is not in the way of a script"
    assert len(read("failed", "list", "--dead")) == 1
    ok("send", orders, "y")
    ok("receive", orders, "--dead-letter", "InvalidJson")
    assert len(read("failed", "list")) == 2, "a dead-letter queue that was read once is read along"
    assert "dead" not in run("failed", "list").stderr


def test_dead_letters_of_one_queue_can_be_read(ok, orders):
    ok("send", orders, "x")
    ok("receive", orders, "--dead-letter", "InvalidJson")
    assert ok("ingest", "--dead-letters", orders) == "read 1 failure from orders/$dead\n"


@pytest.mark.usefixtures("fail")
def test_ingest_names_a_queue_that_is_not_there(run):
    ran = run("ingest", "--queue", "eror")
    assert ran.exit_code == 5
    assert "there is no queue 'eror'" in ran.stderr


@pytest.mark.usefixtures("failures")
def test_failures_can_be_kept_in_another_store(run, read, ok, monkeypatch, tmp_path):
    missing = run("failed", "list", "--store", "sqlite:///ledger.db")
    assert missing.exit_code == 1
    assert "redrive ingest --store sqlite:///ledger.db" in missing.stderr
    assert not (tmp_path / "ledger.db").exists()
    assert read("ingest", "--store", "sqlite:///ledger.db") == {"read": 4, "set_aside": 0, "sources": ["error"]}
    monkeypatch.setenv("REDRIVE_STORE", "sqlite:///ledger.db")
    assert ok("failed", "count") == "4\n"
    monkeypatch.delenv("REDRIVE_STORE")
    assert ok("failed", "count") == "0\n"


@pytest.mark.usefixtures("fail")
def test_sources_can_be_set_for_all_commands(ok, read, monkeypatch):
    ok("queues", "declare", "errors.eu")
    monkeypatch.setenv("REDRIVE_SOURCES", "errors.eu, error")
    assert read("ingest")["sources"] == ["errors.eu", "error"]


@pytest.mark.usefixtures("failures")
def test_groups_come_largest_first_and_say_how_to_see_one(run, read):
    ran = run("failed", "groups")
    assert ran.stdout.split()[:5] == ["count", "first", "last", "group", "what"]
    found = read("failed", "groups")
    assert [(each["count"], each["title"]) for each in found] == [
        (3, "ValueError in shop.ship"),
        (1, "shop.OutOfStock in shop.ship"),
    ]
    assert f"redrive failed list --group {found[0]['id']}" in ran.stderr
    assert len(read("failed", "list", "--group", found[0]["id"])) == 3
    assert [each["title"] for each in read("failed", "groups", "--by", "queue")] == ["orders", "billing"]


@pytest.mark.usefixtures("failures")
def test_show_tells_the_whole_story(ok, read):
    ok("ingest")
    ok("failed", "note", "first", "the customer has been called", "--actor", "ana")
    told = ok("failed", "show", 1)
    for said in ("failed message 1 is unresolved", "first", "ValueError: no address", "in ship", "customer: 7"):
        assert said in told
    assert '"price": 1.10' in told, "a body whose digits would change is shown as it is"
    assert "ana: the customer has been called" in told
    detail = read("failed", "show", "first")
    assert detail["message"]["body"] == '{"id": 1, "price": 1.10}'
    assert detail["message"]["headers"] == {"customer": "7"}
    assert detail["attempts_kept"][0]["stack_trace"] == TRACE
    assert detail == read("failed", "show", detail["id"]) == read("failed", "show", 1)


@pytest.mark.usefixtures("failures")
def test_json_bodies_are_shown_in_lines(ok, fail):
    fail('{"id":5}')
    assert '{\n    "id": 5\n  }' in ok("failed", "show", 5)


def test_a_failure_without_an_exception_has_no_empty_line(ok):
    ok("queues", "declare", "error")
    ok("send", "error", "x", "--header=redrive-failed-queue=orders", "--header=redrive-failed-at=2026-11-01T10:00:00Z")
    told = ok("failed", "show", 1).partition("attempts, the last one first")[2].splitlines()
    assert "2026-11-01 10:00:00 UTC" in told[1]
    assert told[2] == ""
    assert told[3].strip() != ""


def test_an_exception_that_said_nothing_is_shown_by_its_name(ok, fail):
    fail("x", said="")
    assert "\n    ValueError\n" in ok("failed", "show", 1)


@pytest.mark.parametrize("id_", ["99", "nobody", "0" * 32])
@pytest.mark.usefixtures("failures")
def test_showing_one_that_is_not_there_is_refused(run, id_):
    ran = run("failed", "show", id_)
    assert ran.exit_code == 3
    assert "no failed message has the id" in ran.stderr


def test_an_id_that_several_have_is_asked_about(run, fail):
    fail("x", "--id", "same")
    fail("x", "--id", "same", queue="billing")
    ran = run("failed", "show", "same")
    assert ran.exit_code == 3
    assert "say which number: 1, 2" in ran.stderr


@pytest.mark.usefixtures("failures")
def test_export_writes_json_lines_with_everything(ok, run, tmp_path):
    (tmp_path / "blob").write_bytes(b"\xff\x00")
    ok("send", "error", "--file", "blob", "--header", "redrive-failed-queue=orders")
    assert ok("failed", "export", "queue:orders", "--output", "o.jsonl") == "wrote 4 failed messages to o.jsonl\n"
    lines = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [line["message"]["body"] for line in lines] == ['{"id": 1, "price": 1.10}', "two", "three", "/wA="]
    assert lines[3]["message"]["body_encoding"] == "base64"
    assert json.loads(ok("failed", "export", "queue:billing", "-o", "-"))["message_id"] == "fourth"
    assert json.loads(ok("failed", "export", "queue:billing"))["message_id"] == "fourth"
    assert not list(tmp_path.glob("*.part"))
    refused = run("failed", "export", "-o", "nowhere/o.jsonl")
    assert (refused.exit_code, "cannot be written" in refused.stderr) == (1, True)


@pytest.mark.usefixtures("failures")
def test_notes_are_for_whoever_comes_next(ok, read, run):
    group = read("failed", "groups")[0]["id"]
    assert ok("failed", "note", f"group:{group}", "bug 4711") == f"note 1 is about group:{group}\n"
    assert read("failed", "groups")[0]["notes"] == 1
    assert run("failed", "note", "99", "x").exit_code == 3
    assert ok("failed", "drop-note", 1, "--actor", "ana") == "note 1 is removed\n"
    assert read("failed", "groups")[0]["notes"] == 0
    refused = run("failed", "drop-note", 1)
    assert (refused.exit_code, "there is no note 1" in refused.stderr) == (3, True)
    trail = read("operations", "trail")
    assert [(each["action"], each["outcome"][:23]) for each in trail[:2]] == [
        ("drop-note", "refused: there is no no"),
        ("drop-note", "note 1 removed: bug 471"),
    ]


@pytest.mark.usefixtures("failures")
def test_a_group_has_an_owner_and_is_snoozed(ok, read, run):
    group = read("failed", "groups")[0]["id"]
    assert ok("failed", "assign", group, "ann", "--actor", "bob") == f"group {group} belongs to ann\n"
    snoozed = ok("failed", "snooze", group, "2099-01-01", "--above", "500", "--reason", "known")
    assert snoozed.startswith(f"group {group} is snoozed until 2099-01-01")
    assert snoozed.endswith(", or until more than 500 are unresolved\n")
    heading, *_ = ok("failed", "groups").splitlines()
    assert ("owner" in heading, "snoozed" in heading, "again" in heading) == (True, True, False)
    assert read("failed", "snooze", group, "4h")["is_snoozed"] is True
    assert ok("failed", "wake", group) == f"group {group} is awake\n"
    assert ok("failed", "assign", group, "--remove") == f"group {group} has no owner\n"
    assert "owner" not in ok("failed", "groups")
    assert run("failed", "assign", "none", "ann").exit_code == 3
    for wrong in (["assign", group], ["assign", group, "ann", "--remove"], ["snooze", group, "none"]):
        assert run("failed", *wrong).exit_code == 2


@pytest.mark.usefixtures("fail")
def test_what_cannot_be_read_is_set_aside_and_can_be_read_again(ok, run, read):
    ok("send", "error", "what is this", "--id", "odd")
    ran = run("failed", "list")
    assert "1 could not be read and is set aside: redrive failed aside" in ran.stderr
    assert "odd" in ok("failed", "aside")
    assert read("failed", "aside")[0]["message"]["body"] == "what is this"
    assert read("failed", "reimport") == {"read": 0, "left": 1}
    assert ok("failed", "reimport", "--queue", "orders") == "1 could be read\n"
    assert ok("failed", "aside") == "no messages are set aside\n"
    assert read("failed", "show", "odd")["queue"] == "orders"


@pytest.mark.usefixtures("fail")
def test_sweep_asks_first(ok, run):
    assert "add --yes" in run("failed", "sweep", "--older-than", "30d").stderr
    assert ok("failed", "sweep", "--older-than", "30d", "--yes") == "deleted 0 that were settled more than 30d ago\n"
    none = run("failed", "sweep", "--older-than", "none", "--yes")
    assert (none.exit_code, "say how long" in none.stderr) == (2, True)


def test_looking_at_a_database_that_is_not_there_is_refused(refused):
    assert "there is no database redrive.db" in refused("failed", "list")


def test_shells_complete_words():
    from redrive.cli.options.filter import complete_outcome, complete_status

    assert complete_status("a") == ["archived", "any"]
    assert complete_outcome("fail") == ["failed-again", "failed"]


# --- counts


@pytest.mark.usefixtures("failures")
def test_count_tells_each_status_apart(ok, read):
    ok("archive", "queue:billing", "--yes")
    assert read("failed", "count", "--by-status", "status:any") == {
        "unresolved": 3,
        "retry-issued": 0,
        "resolved": 0,
        "archived": 1,
    }
    assert ok("failed", "count", "--by-status").split() == ["status", "count", "unresolved", "3"]


@pytest.mark.usefixtures("failures")
def test_check_says_which_counts_are_wrong_and_repairs_them(run, ok, read):
    ok("ingest")
    assert ok("failed", "check") == "all counts are right\n"
    with closing(sqlite3.connect(Path("redrive.db"))) as connection, connection:
        connection.execute("UPDATE redrive_failure_counts SET n = 7 WHERE queue = 'billing'")
    ran = run("failed", "check")
    assert ran.exit_code == 1
    assert ran.stdout.split()[-6:-2] == ["7", "1", "unresolved", "billing"]
    assert "--repair" in ran.stderr
    view = read("failed", "check", "--repair")
    assert (view["is_repaired"], [each["counted"] for each in view["differences"]]) == (True, [7])
    assert read("failed", "check") == {"differences": [], "is_repaired": False}
