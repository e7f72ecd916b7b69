# SPDX-License-Identifier: MIT
"""``redrive dead``, run as a person runs it."""

import json

import pytest

from redrive import connect_blocking


@pytest.fixture
def dead(ok, orders):
    """A queue with three dead letters."""
    ok("send", orders, "-", "--lines", stdin="a\nb\nc\n")
    ok("receive", orders, "--dead-letter", "InvalidJson", "--max", 3)
    return orders


def test_list_says_why(run, dead):
    ran = run("dead", "list", dead)
    assert ran.stdout.split()[:5] == ["number", "sent", "why", "id", "body"]
    assert ran.stdout.count("InvalidJson") == 3
    assert ran.stdout.count("by redrive receive") == 3


def test_list_in_json_has_reason_description_and_source(read, dead):
    died = read("dead", "list", dead, "--max", 1)
    assert died[0]["dead_letter"] == {
        "reason": "InvalidJson",
        "description": "by redrive receive",
        "source": "orders",
    }
    assert [each["body"] for each in read("dead", "list", dead, "--start", died[0]["sequence"] + 1)] == ["b", "c"]


def test_show_tells_the_whole_story(ok, read, orders):
    trace = "Traceback\n  in ship\nValueError: no address"
    ok("send", orders, "order 42", "--id", "42", "--header", f"redrive-failed-stack-trace={trace}")
    received = ok("receive", orders, "--dead-letter", "NoAddress")
    assert "redrive-failed-stack-trace: 3 lines" in received
    shown = ok("dead", "show", orders, 1)
    for said in (
        "id: 42",
        "reason: NoAddress",
        "description: by redrive receive",
        "queue: orders",
        "    in ship\n",
        "order 42",
    ):
        assert said in shown
    assert read("dead", "show", orders, 1)["headers"] == {"redrive-failed-stack-trace": trace}


def test_showing_one_that_is_not_there_is_refused(refused, dead):
    assert "no dead letter 7" in refused("dead", "show", dead, 7, status=3)


def test_list_goes_on_where_it_stopped(run, dead):
    assert "--start 3" in run("dead", "list", dead, "--max", 2).stderr


def test_no_dead_letters_is_good_news(ok, orders):
    assert ok("dead", "list", orders) == "orders has no dead letters\n"
    assert ok("dead", "list", orders, "--start", 5) == "orders has no dead letters from 5 on\n"
    assert ok("dead", "resubmit", orders) == "resubmitted 0 dead letters to orders\n"


def test_over_delivered_messages_are_listed(ok, orders):
    ok("send", orders, "x")
    for _ in range(3):
        ok("receive", orders, "--abandon")
    assert "delivered 3 times and never completed" in ok("dead", "list", orders).replace("\n", "")


def test_resubmit_sends_again_with_id_and_body(ok, read, dead):
    ids = [each["id"] for each in read("dead", "list", dead)]
    assert ok("dead", "resubmit", dead, "--yes") == "resubmitted 3 dead letters to orders\n"
    assert [each["id"] for each in read("peek", dead)] == ids
    assert read("dead", "list", dead) == []


def test_single_ones_are_resubmitted_and_removed_by_number(ok, run, read, dead):
    first, second, third = (each["sequence"] for each in read("dead", "list", dead))
    assert ok("dead", "resubmit", dead, second, "--yes") == "resubmitted 1 dead letter to orders\n"
    assert ok("dead", "purge", dead, first, "--yes") == "removed 1 dead letter from orders/$dead\n"
    assert [each["sequence"] for each in read("dead", "list", dead)] == [third]
    assert [each["body"] for each in read("peek", dead)] == ["b"]
    gone = run("dead", "resubmit", dead, first, third, "--yes")
    assert (gone.exit_code, "nothing was changed" in gone.stderr) == (3, True)
    assert run("dead", "resubmit", dead, third, "--max", 1, "--yes").exit_code == 2


def test_resubmit_some_in_json(read, dead):
    assert read("dead", "resubmit", dead, "--max", 1, "--yes") == {
        "queue": "orders",
        "resubmitted": 1,
        "stayed": [],
        "locked": 0,
        "locked_until": None,
    }
    assert len(read("dead", "list", dead)) == 2


def test_resubmit_says_what_stays_and_why(ok, run, dead):
    ok("send", dead, "x" * 100)
    ok("receive", dead, "--dead-letter", "TooBig")
    ok("queues", "update", dead, "--max-message-bytes", 80)
    ran = run("dead", "resubmit", dead, "--yes")
    assert (ran.exit_code, ran.stdout) == (8, "resubmitted 3 dead letters to orders\n")
    assert "1 of 4 stays: a message of " in ran.stderr
    assert "is too large for queue 'orders'" in ran.stderr
    again = json.loads(run("dead", "resubmit", dead, "--yes", "--json").stdout)
    assert [(each["number"], "too large" in each["reason"]) for each in again["stayed"]] == [(4, True)]


def test_resubmit_says_that_dead_letters_are_locked(run, dead):
    with connect_blocking("sqlite:///redrive.db") as broker:
        broker.receive(f"{dead}/$dead", max_messages=2)
    ran = run("dead", "resubmit", dead, "--yes")
    assert (ran.exit_code, ran.stdout) == (0, "resubmitted 1 dead letter to orders\n")
    assert "2 are locked by another consumer until " in ran.stderr


def test_resubmit_asks_a_person_first(run, dead, monkeypatch):
    monkeypatch.setattr("redrive.cli.output.prompt.is_interactive", lambda: True)
    asked = run("dead", "resubmit", dead, stdin="n\n")
    assert asked.exit_code == 1
    assert "Send 3 dead letters to orders again?" in asked.stderr


def test_a_script_has_to_say_yes(refused, dead):
    assert "add --yes" in refused("dead", "purge", dead)


def test_purge_removes_for_good(ok, read, dead):
    assert ok("dead", "purge", dead, "--yes") == "removed 3 dead letters from orders/$dead\n"
    assert read("dead", "list", dead) == []


def test_dead_letters_are_a_queue_like_any_other(read, dead):
    assert [each["body"] for each in read("receive", f"{dead}/$dead", "--complete", "--max", 9)] == ["a", "b", "c"]
