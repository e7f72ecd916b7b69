# SPDX-License-Identifier: MIT
"""``redrive operations``, run as a person runs it."""

import os
import signal
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def _failures(ok):
    """Three failed orders, and one that failed in a queue that is gone."""
    ok("queues", "declare", "orders")
    ok("queues", "declare", "error")
    ok("send", "error", "-", "--lines", "--header", "redrive-failed-queue=orders", stdin="a\nb\nc")
    ok("send", "error", "d", "--header", "redrive-failed-queue=gone")
    ok("ingest")


def test_list_is_empty_at_first(ok):
    assert "request one: redrive recover" in ok("operations", "list")
    assert ok("operations", "list", "--open") == "no open operations\n"
    assert ok("operations", "trail", "--subject", "operation:1") == "no entries about operation:1\n"
    assert ok("operations", "trail", "--before", 1) == "no entries before entry 1\n"
    assert ok("operations", "list", "--before", 1) == "no operations before 1\n"


def test_list_shows_the_newest_first(run, ok, read):
    ok("archive", "--id", 1, "--yes")
    ok("recover", "queue:orders", "--detach", "--yes")
    ran = run("operations", "list")
    assert ran.stdout.split()[:4] == ["operation", "does", "state", "asked"]
    assert [(each["number"], each["kind"]) for each in read("operations", "list")] == [(2, "recover"), (1, "archive")]
    assert [each["number"] for each in read("operations", "list", "--open")] == [2]
    assert "--before 2" in run("operations", "list", "--limit", 1).stderr
    assert [each["number"] for each in read("operations", "list", "--before", 2)] == [1]


def test_that_nobody_serves_is_told_where_something_waits(run, ok, read):
    ok("recover", "queue:orders", "--detach", "--yes")
    hint = "no process works on operations; start one: redrive operations run"
    assert hint in run("operations", "list").stderr
    assert hint in run("operations", "show", 1).stderr
    ok("operations", "pause", 1)
    assert hint not in run("operations", "list").stderr
    assert ok("operations", "services") == "no process serves; start one: redrive operations run\n"
    assert read("operations", "services") == []


def test_show_tells_who_asked_for_what_and_how(ok, read):
    ok(
        "recover",
        "queue:orders",
        "--rate",
        5,
        "--canary",
        2,
        "--reason",
        "mended",
        "--actor",
        "ana",
        "--detach",
        "--yes",
    )
    ok("failed", "note", "operation:1", "keep an eye on it", "--actor", "bob")
    told = ok("operations", "show", 1)
    for said in (
        "operation 1 (recover) is running",
        "0 of 3",
        "by ana: mended",
        "queue:orders",
        "5 a second; 2 first, of which 0 may fail",
        "bob: keep an eye on it",
    ):
        assert said in told
    assert read("operations", "show", 1)["filter"] == "queue:orders"


def test_show_lists_messages_by_outcome_and_says_why(run, ok, read):
    ran = run("recover", "--all", "--wait", 0, "--yes")
    assert ran.exit_code == 8
    assert "x failed 1" in ran.stdout
    told = ok("operations", "show", 1, "--outcome", "failed,skipped")
    assert "there is no queue 'gone'" in told
    found = read("operations", "show", 1, "--outcome", "any", "--limit", 10)["messages"]
    assert [each["outcome"] for each in found] == ["forwarded", "forwarded", "forwarded", "failed"]
    assert "--after 1" in run("operations", "show", 1, "--outcome", "forwarded", "--limit", 1).stderr


def test_an_operation_is_paused_resumed_and_cancelled(run, ok, read):
    ok("recover", "queue:orders", "--detach", "--yes")
    ran = run("operations", "pause", 1, "--reason", "down again", "--actor", "ana")
    assert "operation 1 (recover) is paused: down again" in ran.stdout
    assert read("operations", "resume", 1, "--detach")["state"] == "running"
    assert "add --yes" in run("operations", "cancel", 1).stderr
    assert "is cancelled" in ok("operations", "cancel", 1, "--yes")
    assert [each["status"] for each in read("failed", "list", "queue:orders")] == ["unresolved"] * 3
    assert [each["action"] for each in read("operations", "trail", "--subject", "operation:1")] == [
        "cancel",
        "resume",
        "pause",
        "recover",
    ]


def test_resume_works_and_watches(ok):
    ok("recover", "queue:orders", "--detach", "--yes")
    ok("operations", "pause", 1)
    assert "3 of 3" in ok("operations", "resume", 1, "--wait", 0)


def test_set_rate_takes_numbers_and_none(ok, read):
    ok("recover", "queue:orders", "--detach", "--yes")
    assert read("operations", "set-rate", 1, 50)["plan"]["rate"] == 50
    assert "rate" not in read("operations", "set-rate", 1, "none")["plan"]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("show", 99), 3, "there is no operation 99"),
        (("watch", 99), 3, "there is no operation 99"),
        (("pause", 99), 3, "there is no operation 99"),
        (("pause", 1), 6, "operation 1 cannot be paused: it is completed"),
        (("set-rate", 1, "fast"), 2, "write messages a second"),
        (("show", 1, "--outcome", "faild"), 2, "write any, or some of"),
    ],
)
def test_what_cannot_be_done_says_why(run, ok, arguments, status, said):
    ok("archive", "queue:orders", "--yes")
    ran = run("operations", *arguments)
    assert (ran.exit_code, ran.stdout) == (status, "")
    assert said in ran.stderr


def test_an_operation_is_marked_as_seen(ok, read, run):
    ok("archive", "queue:orders", "--yes")
    assert ok("operations", "acknowledge", 1, "--actor", "ana") == "operation 1 is seen by ana\n"
    assert "seen by   ana" in ok("operations", "show", 1)
    assert read("operations", "acknowledge", 1, "--actor", "ben")["acknowledged_by"] is not None
    assert run("operations", "acknowledge", 9).exit_code == 3


def test_lanes_are_listed_with_what_is_sent_in_them(ok, read):
    assert ok("operations", "lanes") == "no lanes: nothing has been sent yet\n"
    ok("recover", "queue:orders", "--wait", 0, "--yes")
    (lane,) = read("operations", "lanes")
    assert (lane["name"], lane["strays"], lane["session"]) == ("orders", 0, None)
    assert ok("operations", "lanes").split()[:5] == ["lane", "batch", "strays", "process", "orders"]


def test_numbers_are_completed_by_a_shell(ok, tmp_path):
    from typer.main import get_command

    from redrive.cli.commands.operations import complete_operation
    from redrive.cli.main import app

    context = get_command(app).make_context("redrive", ["queues"])
    assert complete_operation(context) == []
    ok("archive", "queue:orders", "--yes")
    assert complete_operation(context) == [("1", "archive, completed")]
    (tmp_path / "redrive.db").unlink()
    assert complete_operation(context) == []


def test_run_serves_until_it_is_told_to_stop(ok, read, tmp_path):
    ok("recover", "queue:orders", "--detach", "--yes")
    process = subprocess.Popen(
        [sys.executable, "-m", "redrive.cli", "operations", "run"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"COLUMNS": "200"},
    )
    try:
        assert process.stderr.readline() == "recovery reads error and works on operations; Ctrl-C stops it\n"
        assert any("operation 1 (recover) is completed" in line for line in iter(process.stderr.readline, ""))
        assert len(read("operations", "services")) == 1
        assert ", for " in ok("operations", "services")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert read("operations", "services") == []
    assert len(read("peek", "orders")) == 3
