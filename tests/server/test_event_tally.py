# SPDX-License-Identifier: MIT
"""What one process tells another about its events: exact counts, however many there are and however late it tells."""

import json

from prometheus_client import generate_latest

from redrive.recovery import MessageFailed, OperationChanged
from redrive.routes import LegDelivered
from redrive.server.event_tally import EventTally, event_kinds
from redrive.server.metrics import Metrics
from redrive.server.topics import EVERYTHING
from redrive.testing import ManualClock


def failed(queue):
    return MessageFailed("1", "m", queue, "E", "g", None)


def samples(metrics):
    lines = generate_latest(metrics.registry).decode().splitlines()
    return [line for line in lines if line.startswith("redrive_") and "_created" not in line]


def passed_on(tally):
    """Return what arrives in the other process."""
    return json.loads(json.dumps(tally.take()))


def test_the_metrics_of_another_process_are_those_of_one():
    events = [*map(failed, ["orders", "billing", "orders"]), *map(leg, [0.02, 3.0])]
    here, there, tally = Metrics(ManualClock()), Metrics(ManualClock()), EventTally(event_kinds())
    for event in events:
        here.note(event)
        tally.note(event)
    there.add(passed_on(tally))
    assert samples(there) == samples(here)
    assert 'redrive_recovery_message_failed_total{queue="orders"} 2.0' in "\n".join(samples(there))


def leg(seconds):
    return LegDelivered(application="shop", route="bill", event_id="e", outcome="sent", attempt=1, parts=1, age=seconds)


def test_what_was_told_is_not_told_again():
    tally = EventTally(event_kinds())
    tally.note(failed("orders"))
    assert tally.take()["counts"] == [["redrive.recovery.message_failed", ("orders",), 1]]
    assert tally.take() is None


def test_topics_are_told_by_name_until_there_are_too_many():
    tally = EventTally(event_kinds())
    for number in range(3):
        tally.note(failed(f"queue-{number}"))
    assert tally.take()["topics"] == ["failed", "queue:queue-0", "queue:queue-1", "queue:queue-2"]
    for number in range(10_000):
        tally.note(failed(f"queue-{number}"))
    assert tally.take()["topics"] == [EVERYTHING]


def test_a_tally_that_is_not_taken_stays_small_and_its_counts_exact():
    tally = EventTally(event_kinds())
    for _ in range(25_000):
        tally.note(leg(0.1))
    taken = tally.take()
    assert sum(count for *_, count in taken["counts"]) == 25_000
    assert sum(len(seconds) for *_, seconds in taken["seconds"]) == 10_000


def test_an_event_without_a_counter_is_a_hint_all_the_same():
    tally = EventTally([])
    tally.note(OperationChanged(3, "recover", "running", "ann", ""))
    assert tally.take() == {"counts": [], "seconds": [], "topics": ["operation:3", "operations"]}
