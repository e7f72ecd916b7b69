# SPDX-License-Identifier: MIT
"""Whatever the tables know of messages becomes a graph whose edges lead somewhere and whose times add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.cli.output.journey_drawing import JourneyDrawing
from redrive.journey import views
from redrive.journey.graph import build
from redrive.journey.records import (
    Entry,
    FailureAttempt,
    FailurePart,
    FailureRecord,
    QueuedMessage,
    Records,
    TaskRecord,
    TaskShipment,
)


def id_of(record):
    return record.id


def is_something(known):
    return known.entries or known.queued or known.failures or known.tasks


ids = st.sampled_from(["a", "b", "a:r", "t-1"])
queues = st.sampled_from(["orders", "events/r", "events/s", "error"])
instants = st.integers(0, 1_000).map(float)
optional = st.none() | instants

entries = st.builds(
    Entry,
    message_id=ids,
    parent=st.none() | ids,
    at=instants,
    since=optional,
    until=optional,
    layer=st.just("redeliver"),
    event=st.sampled_from(["sent", "abandoned", "failed", "lock-expired", "dead-lettered", "expired", "completed"]),
    place=queues,
    attempt=st.integers(0, 9),
    reason=st.text(max_size=5),
)
queued = st.builds(
    QueuedMessage,
    message_id=ids,
    parent=st.none() | ids,
    queue=queues | st.just("orders/$dead"),
    state=st.sampled_from(["ready", "locked", "scheduled", "deferred"]),
    enqueued_at=instants,
    due_at=optional,
    locked_since=optional,
    is_dead=st.booleans(),
    failed_queue=st.none() | queues,
)
attempts = st.builds(FailureAttempt, at=instants, operation=st.none() | st.integers(1, 3), exception=st.just("E: x"))
parts = st.builds(
    FailurePart,
    operation=st.integers(1, 3),
    kind=st.just("recover"),
    actor=st.just("ann"),
    reason=st.just(""),
    requested_at=instants,
    outcome=st.sampled_from(["pending", "forwarded", "succeeded", "failed-again", "cancelled"]),
    at=instants,
)
failures = st.builds(
    FailureRecord,
    id=st.sampled_from(["f", "g"]),
    message_id=ids,
    parent=st.none() | ids,
    queue=queues,
    status=st.sampled_from(["unresolved", "retry-issued", "resolved", "archived"]),
    settled_at=optional,
    edit_of=st.none(),
    edited_as=st.none() | ids,
    attempts=st.lists(attempts, min_size=1, max_size=3).map(tuple),
    parts=st.lists(parts, max_size=2).map(tuple),
)
tasks = st.builds(
    TaskRecord,
    id=st.sampled_from(["t", "u", "v"]),
    pipeline=st.just("p"),
    stage=st.sampled_from(["process", "batch", "send"]),
    destination=st.sampled_from(["", "state"]),
    state=st.sampled_from(["ready", "waiting", "done", "failed", "expired", "unknown", "cancelled"]),
    created_at=instants,
    changed_at=instants,
    slot_at=optional,
    parents=st.lists(st.sampled_from(["t", "u", "v"]), max_size=2, unique=True).map(tuple),
    shipments=st.lists(
        st.builds(
            TaskShipment,
            delivery_id=st.sampled_from(["t-1", "u-1"]),
            state=st.sampled_from(["pending", "sent", "unknown"]),
            attempt=st.just(1),
            receipt=st.just(""),
            reason=st.just(""),
            changed_at=instants,
        ),
        max_size=1,
    ).map(tuple),
)
records = st.builds(
    Records,
    entries=st.lists(entries, max_size=6).map(tuple),
    queued=st.lists(queued, max_size=3).map(tuple),
    failures=st.lists(failures, max_size=2, unique_by=id_of).map(tuple),
    tasks=st.lists(tasks, max_size=3, unique_by=id_of).map(tuple),
    submissions=st.sets(st.tuples(ids, st.sampled_from(["t", "u"])), max_size=2).map(frozenset),
    topics=st.sampled_from([frozenset(), frozenset({"events"})]),
    was_cut=st.booleans(),
    now=st.just(1_000.0),
).filter(is_something)


@given(records)
def test_every_edge_leads_from_a_node_to_a_node_and_the_times_add_up(known):
    found = build("a", known)
    nodes = [node.id for node in found.nodes]
    assert len(set(nodes)) == len(nodes)
    assert all(edge.source in nodes and edge.target in nodes and edge.source != edge.target for edge in found.edges)
    assert sum(found.times.values()) == pytest.approx(found.end - found.begin)
    assert found.begin == min(node.begin for node in found.nodes)
    assert found.state in ("under way", "failed", "ended", "unknown")


@given(records)
def test_everything_that_is_known_has_a_node(known):
    nodes = {node.id for node in build("a", known).nodes}
    for entry in known.entries:
        assert f"{entry.message_id}@{entry.place}" in nodes
    assert {f"failure:{each.id}" for each in known.failures} <= nodes
    assert {f"operation:{part.operation}" for each in known.failures for part in each.parts} <= nodes
    assert {f"task:{each.id}" for each in known.tasks} <= nodes
    assert {f"shipment:{each.delivery_id}" for task in known.tasks for each in task.shipments} <= nodes


@given(records)
def test_every_node_is_drawn_once_and_every_journey_is_json(known):
    found = build("a", known)
    view = views.journey(found)
    assert [each["id"] for each in view["nodes"]] == [node.id for node in found.nodes]
    lines = [line.plain for line in JourneyDrawing(found).lines()]
    drawn = [line for line in lines if "(above)" not in line]
    assert len(drawn) >= len(found.nodes)
    assert sum(line.startswith("! ") for line in lines) == len(found.notes)


def entry(event, at, **more):
    values = {
        "message_id": "a",
        "parent": None,
        "at": at,
        "since": None,
        "until": None,
        "layer": "redeliver",
        "event": event,
        "place": "orders",
        "attempt": 1,
        "reason": "",
    }
    return Entry(**(values | more))


def test_waiting_handling_and_delays_are_told_apart():
    known = Records(
        entries=(
            entry("sent", 0.0),
            entry("abandoned", 12.0, since=10.0, until=17.0),
            entry("completed", 20.0, since=18.0),
        ),
        now=100.0,
    )
    found = build("a", known)
    assert found.times == {"handling": 4.0, "delayed": 5.0, "waiting": 11.0}
    assert (found.state, found.end, found.notes) == ("ended", 20.0, ())


def test_a_message_that_was_completed_without_a_record_is_told_as_a_gap():
    found = build("a", Records(entries=(entry("abandoned", 12.0, since=10.0),), now=100.0))
    assert found.state == "unknown"
    before, after = found.notes
    assert before == "no record of a in orders before its first trouble"
    assert after.startswith("no record of a in orders after that: it is in no queue that was looked at")


@pytest.mark.parametrize("message_id", ["a", "z"])
def test_a_message_comes_before_its_failure_though_both_begin_at_once(message_id):
    failure = FailureRecord(
        id="f",
        message_id=message_id,
        parent=None,
        queue="orders",
        status="unresolved",
        settled_at=None,
        edit_of=None,
        edited_as=None,
        attempts=(FailureAttempt(at=10.0, operation=None, exception="E"),),
        parts=(),
    )
    found = build(message_id, Records(failures=(failure,), now=100.0))
    assert [node.kind for node in found.nodes] == ["message", "failure"]


def test_the_time_between_a_failure_and_its_recovery_is_time_in_which_it_had_failed():
    failure = FailureRecord(
        id="f",
        message_id="a",
        parent=None,
        queue="orders",
        status="resolved",
        settled_at=60.0,
        edit_of=None,
        edited_as=None,
        attempts=(FailureAttempt(at=10.0, operation=None, exception="E"),),
        parts=(
            FailurePart(
                operation=7, kind="recover", actor="ann", reason="", requested_at=50.0, outcome="succeeded", at=60.0
            ),
        ),
    )
    found = build("a", Records(failures=(failure,), now=100.0))
    assert found.times == {"in recovery": 10.0, "failed": 40.0}
    assert {(edge.source, edge.target, edge.kind) for edge in found.edges} == {
        ("a@orders", "failure:f", "failed"),
        ("failure:f", "operation:7", "recovery"),
        ("operation:7", "a@orders", "again"),
    }
