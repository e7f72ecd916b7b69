# SPDX-License-Identifier: MIT
"""The broker without an event loop."""

import subprocess
import sys
from pathlib import Path

import pytest

from redrive import connect_blocking
from redrive.broker import Message
from redrive.errors import QueueNotFound, UsageError
from tools.generate_blocking import TWINS, generate

ROOT = Path(__file__).parents[2]


@pytest.fixture
def broker():
    with connect_blocking("sqlite:///:memory:") as broker:
        broker.declare("orders", max_delivery_count=2)
        yield broker


@pytest.mark.parametrize("target", TWINS, ids=lambda path: path.parent.name)
def test_the_twin_is_what_the_generator_writes(target):
    written = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", str(target), "-"],
        input=generate(target),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert written.stdout == target.read_text(), "run: make blocking"


def test_a_message_goes_through(broker):
    broker.send("orders", "one")
    (message,) = broker.receive("orders")
    assert message.body == b"one"
    message.complete()
    assert broker.receive("orders") == []


def test_an_abandoned_message_comes_back_and_then_is_dead(broker):
    broker.send("orders", b"bad")
    for _ in range(2):
        (message,) = broker.receive("orders")
        message.abandon()
    assert broker.receive("orders") == []
    assert broker.inspect("orders").dead == 1
    assert broker.resubmit("orders") == 1


def test_messages_goes_on_until_none_is_ready(broker):
    broker.send_many("orders", [b"1", b"2", b"3"])
    seen = []
    for message in broker.messages("orders", max_messages=2):
        seen.append(message.body)
        message.complete()
    assert seen == [b"1", b"2", b"3"]


def test_a_session_is_given_back_at_the_end_of_its_block(broker):
    broker.declare("steps", requires_session=True)
    broker.send("steps", Message(b"1", session_id="A"))
    with broker.accept_session("steps") as session:
        assert [message.body for message in session.receive(max_messages=5)] == [b"1"]
        session.remember(b"half-way")
    again = broker.accept_session("steps", "A")
    assert again is not None
    assert again.state == b"half-way"


def test_no_session_to_be_had_is_none(broker):
    broker.declare("steps", requires_session=True)
    assert broker.accept_session("steps") is None


def test_errors_are_those_of_the_broker(broker):
    with pytest.raises(QueueNotFound, match="declare it first"):
        broker.send("nowhere", b"x")


def test_a_closed_broker_says_so():
    with connect_blocking("sqlite:///:memory:") as broker:
        pass
    with pytest.raises(UsageError, match="closed"):
        broker.queues()


def test_a_broker_that_cannot_open_leaves_no_thread_behind(tmp_path):
    from threading import enumerate as threads

    before = {*threads()}  # of other tests: what they leave open ends with the process
    with pytest.raises(Exception, match="folder"), connect_blocking(f"sqlite:///{tmp_path}/no/such/folder/x.db"):
        pass
    assert [thread for thread in threads() if thread.name == "redrive-portal" and thread not in before] == []


def test_what_goes_wrong_in_a_session_is_not_hidden_by_its_end(broker):
    broker.declare("steps", requires_session=True)
    broker.send("steps", Message(b"1", session_id="A"))

    def give_back_and_fail(session):
        session.release()  # so that giving it back at the end fails too
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), broker.accept_session("steps") as session:
        give_back_and_fail(session)
