# SPDX-License-Identifier: MIT
"""What a stored message says about itself, also one that an earlier state of the program has stored."""

import json

import pytest

from redrive.engines.nats.records import HEADER, MessageRecord, record_of
from redrive.engines.nats.subjects import MessageLane, MessagePlace

READY = MessagePlace(MessageLane.READY, "key", 7)


def stored(record):
    headers, body = record.stored
    return record_of(record.place, headers, body, 1)


def new():
    return MessageRecord(READY, "order", None, b"x", 1.0, is_only=True)


def test_a_message_that_was_only_sent_has_no_older_version():
    assert stored(new()).is_only


@pytest.mark.parametrize("lane", MessageLane)
def test_a_message_that_was_stored_anew_may_have_an_older_version(lane):
    assert not stored(new().moved(lane)).is_only


def test_a_message_that_does_not_say_so_may_have_an_older_version():
    headers, body = new().stored
    before = {HEADER: json.dumps(json.loads(headers[HEADER])[:-1])}
    found = record_of(READY, before, body, 1)
    assert (found.id, found.is_only) == ("order", False)
