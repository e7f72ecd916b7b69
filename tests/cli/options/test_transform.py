# SPDX-License-Identifier: MIT
"""Functions that change messages, on the command line: only those that are named, and none of them stops a service."""

import os
import signal
import subprocess
import sys

import pytest

FUNCTIONS = """
import os
import sys
from dataclasses import replace

def shout(message):
    return replace(message, body=message.body.upper())

def leave(message):
    sys.exit(3)

def hang(message):
    while "HANG" in os.environ:
        open("begun", "w").close()
    return message
"""


@pytest.fixture(autouse=True)
def failures(ok, tmp_path):
    """Two failed orders, and functions beside them."""
    (tmp_path / "mending.py").write_text(FUNCTIONS)
    for queue in ("orders", "error"):
        ok("queues", "declare", queue)
    ok("send", "error", "-", "--lines", "--header", "redrive-failed-queue=orders", stdin="a\nb")
    ok("ingest")


def recovered(run, function, *more):
    """Ask for a recovery with a function, as somebody who may name it."""
    return run("recover", "queue:orders", "--function", f"mending:{function}", "--wait", 0, "--yes", *more)


def test_who_names_a_function_in_a_command_allows_it_there(run, read):
    assert recovered(run, "shout").exit_code == 0
    assert sorted(each["body"] for each in read("peek", "orders")) == ["A", "B"]


def test_a_function_that_leaves_fails_its_messages(run, read):
    ran = recovered(run, "leave")
    assert "failed 2" in ran.stdout, ran.output
    told = read("operations", "show", 1, "--outcome", "failed")["messages"]
    assert {"mending:leave raised SystemExit: 3" in each["reason"] for each in told} == {True}


def test_a_function_that_nobody_has_named_holds_up_its_operation(run, ok, read, monkeypatch):
    assert recovered(run, "shout", "--detach").exit_code == 0
    ran = run("operations", "watch", 1, "--wait", 0)
    assert "is paused: the function mending:shout is not allowed here" in ran.stdout.replace("\n", " ")
    assert "--allow-transform mending:shout" in ran.stdout.replace("\n", " ")
    monkeypatch.setenv("REDRIVE_ALLOW_TRANSFORMS", "other:thing,mending:*")
    ok("operations", "resume", 1, "--wait", 0)
    assert sorted(each["body"] for each in read("peek", "orders")) == ["A", "B"]


def test_an_allowance_that_cannot_be_understood_is_refused(run):
    ran = run("operations", "run", "--allow-transform", "*")
    assert ran.exit_code == 2
    assert "shop.mending:*" in ran.stderr


def test_a_service_whose_function_hangs_ends_when_it_is_told_to(run, read, tmp_path):
    assert recovered(run, "hang", "--detach").exit_code == 0
    process = subprocess.Popen(
        [sys.executable, "-m", "redrive.cli", "operations", "run", "--allow-transform", "mending:hang"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"COLUMNS": "200", "HANG": "yes"},
    )
    try:
        while not (tmp_path / "begun").exists():
            assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0
    (operation,) = read("operations", "list")
    assert (operation["state"], operation["progress"]["remaining"]) == ("running", 2)
