# SPDX-License-Identifier: MIT
"""``redrive send``, ``receive`` and ``peek``, run as a person runs them."""

import base64
from pathlib import Path

import pytest

from redrive import connect_blocking
from redrive.broker import State
from redrive.cli.commands.messages import StateName


def test_what_is_sent_can_be_peeked(ok, read, orders):
    sent = ok(
        *("send", orders, "order 42", "--id", 42, "--subject", "order", "--content-type", "text/plain"),
        *(
            "--correlation-id",
            "basket 7",
            "--reply-to",
            "answers",
            "--ttl",
            "1h",
            "--header",
            "customer=7",
            "-H",
            "a=b=c",
        ),
    )
    assert sent == "sent 1 to orders, number 1\n"
    (message,) = read("peek", orders)
    told = {
        "sequence": 1,
        "id": "42",
        "state": "ready",
        "delivery_count": 0,
        "body": "order 42",
        "body_encoding": "utf-8",
        "subject": "order",
        "content_type": "text/plain",
        "correlation_id": "basket 7",
        "reply_to": "answers",
        "ttl": 3600.0,
        "headers": {"customer": "7", "a": "b=c"},
        "dead_letter": None,
    }
    assert {name: message[name] for name in told} == told
    assert message["expires_at"] > message["enqueued_at"]


def test_a_body_that_is_no_text_is_base64_in_json_and_a_size_on_screen(ok, read, orders):
    Path("picture").write_bytes(b"\xff\xfe\x00")
    ok("send", orders, "--file", "picture")
    (message,) = read("peek", orders)
    assert message["body_encoding"] == "base64"
    assert base64.b64decode(message["body"]) == b"\xff\xfe\x00"
    assert "3 bytes, not text" in ok("peek", orders)


def test_a_dash_reads_the_body_from_standard_input(ok, read, orders):
    ok("send", orders, "-", stdin="two\nlines\n")
    assert read("peek", orders)[0]["body"] == "two\nlines\n"


def test_each_line_can_be_a_message(ok, read, orders):
    assert ok("send", orders, "-", "--lines", stdin="a\nb\nc\n") == "sent 3 to orders, number 1 to 3\n"
    assert [message["body"] for message in read("peek", orders)] == ["a", "b", "c"]


def test_many_are_sent_in_batches(read, orders):
    sent = read("send", orders, "x", "--count", 2500)
    assert sent == {"queue": "orders", "sent": 2500, "duplicates": 0, "first_sequence": 1, "last_sequence": 2500}


def test_duplicates_are_counted(ok):
    ok("queues", "declare", "once", "--duplicate-detection", "1h")
    sent = ok("send", "once", "x", "--id", "7", "--count", 3)
    assert sent == "sent 1 to once, number 1; 2 dropped as duplicates\n"
    assert ok("send", "once", "x", "--id", "7") == "sent 0 to once; 1 dropped as duplicates\n"


def test_a_session_is_stated(ok, read):
    ok("queues", "declare", "steps", "--requires-session", "yes")
    ok("send", "steps", "x", "--session", "s1")
    assert read("peek", "steps")[0]["session_id"] == "s1"


def test_messages_of_a_session_are_received_by_its_name(ok, read, refused):
    ok("queues", "declare", "steps", "--requires-session", "yes")
    ok("send", "steps", "a", "--session", "s1")
    ok("send", "steps", "b", "--session", "s2")
    assert "--session" in refused("receive", "steps", "--complete", status=2)
    assert "--session" in refused("send", "steps", "c", status=2)
    assert [each["body"] for each in read("receive", "steps", "--complete", "--session", "s2")] == ["b"]
    assert read("receive", "steps", "--complete", "--session", "s2") == []


def test_a_session_that_is_taken_is_not_received(ok, refused):
    ok("queues", "declare", "steps", "--requires-session", "yes")
    ok("send", "steps", "a", "--session", "s1")
    with connect_blocking("sqlite:///redrive.db") as broker:
        broker.accept_session("steps", "s1")
        assert "locked by another consumer" in refused("receive", "steps", "--complete", "--session", "s1", status=6)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say what to send"),
        (("x", "--file", "y"), "say what to send"),
        (("x", "--header", "nonsense"), "NAME=VALUE"),
        (("x", "--ttl", "soon"), "write seconds as a number"),
        (("x", "--ttl", "-1"), "ttl"),
        (("x", "--count", "3", "--id", ""), "id: must be a text"),
        (("x" * 1100, "--subject", "y" * 2000), "subject: must be a text"),
    ],
)
def test_a_mistake_in_sending_is_named(refused, orders, arguments, said):
    assert said in refused("send", orders, *arguments, status=2)


def test_a_file_that_is_not_there_is_named(refused, orders):
    assert "nowhere cannot be read" in refused("send", orders, "--file", "nowhere")


def test_a_message_too_large_says_so(ok, refused):
    ok("queues", "declare", "small", "--max-message-bytes", 10)
    assert "raise max_message_bytes" in refused("send", "small", "x" * 11)


def test_receive_wants_to_know_what_becomes_of_the_messages(refused, orders):
    said = refused("receive", orders, status=2)
    assert "--complete, --abandon, --defer or --dead-letter REASON" in said
    assert refused("receive", orders, "--complete", "--abandon", status=2) == said


def test_receive_and_complete_removes(ok, read, orders):
    ok("send", orders, "order 42", "--id", "42", "-H", "customer=7")
    head, header, body = ok("receive", orders, "--complete").splitlines()
    assert head.startswith("number 1 · delivery 1 · ")
    assert head.endswith(" old · 42")
    assert (header, body) == ("customer: 7", "order 42")
    assert read("peek", orders) == []


def test_receive_in_json(ok, read, orders):
    ok("send", orders, "-", "--lines", stdin="a\nb\nc\n")
    assert [message["body"] for message in read("receive", orders, "--complete", "--max", 2)] == ["a", "b"]


def test_receive_and_abandon_counts(ok, read, orders):
    ok("send", orders, "x")
    ok("receive", orders, "--abandon")
    assert read("peek", orders)[0]["delivery_count"] == 1
    ok("receive", orders, "--abandon", "--delay", "1h")
    assert read("peek", orders)[0]["state"] == "scheduled"


def test_receive_and_defer_or_dead_letter(ok, read, orders):
    ok("send", orders, "x", "--count", 2)
    ok("receive", orders, "--defer")
    ok("receive", orders, "--dead-letter", "Broken")
    assert [message["state"] for message in read("peek", orders)] == ["deferred"]
    assert read("dead", "list", orders)[0]["dead_letter"]["reason"] == "Broken"


def test_nothing_to_receive_is_no_error(run, orders):
    ran = run("receive", orders, "--complete", "--wait", "10ms")
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert "nothing to receive" in ran.stderr


def test_what_could_not_be_printed_is_not_settled(run, read, ok, orders, monkeypatch):
    ok("send", orders, "x")
    monkeypatch.setattr("redrive.cli.output.message_detail.body_text", lambda _: 1 / 0)
    assert run("receive", orders, "--complete").exit_code == 1
    assert read("peek", orders)[0]["state"] == "locked"


def test_peek_shows_a_table_and_where_to_go_on(run, ok, orders):
    ok("send", orders, "a long body " * 20, "--count", 3)
    ran = run("peek", orders, "--max", 2)
    assert all(len(line) <= 80 for line in ran.stdout.splitlines())
    assert ran.stdout.split()[:6] == ["number", "state", "deliveries", "sent", "id", "body"]
    assert "--start 3" in ran.stderr
    assert "no messages in orders from 4 on" in ok("peek", orders, "--start", 4)


def test_peek_by_state(ok, read, orders):
    ok("send", orders, "now")
    ok("send", orders, "later", "--delay", "1h")
    (later,) = read("peek", orders, "--state", "scheduled")
    assert later["body"] == "later"
    assert later["due_at"] > later["enqueued_at"]


def test_the_states_on_the_command_line_are_the_states_there_are():
    assert [name.name for name in StateName] == [state.name for state in State]


def test_a_deferred_message_is_received_by_its_number(ok, read, refused, orders):
    ok("send", orders, "aside")
    ok("receive", orders, "--defer")
    (aside,) = read("peek", orders)
    (found,) = read("receive", orders, "--number", aside["sequence"], "--complete")
    assert found["body"] == "aside"
    assert read("peek", orders) == []
    assert str(aside["sequence"]) in refused("receive", orders, "--number", aside["sequence"], "--complete", status=3)


def test_a_scheduled_message_is_cancelled_by_its_number(ok, read, refused, orders):
    ok("send", orders, "later", "--delay", "1h")
    (later,) = read("peek", orders)
    assert "no longer scheduled" in ok("cancel", orders, later["sequence"])
    assert read("peek", orders) == []
    assert "scheduled" in refused("cancel", orders, later["sequence"], status=3)
