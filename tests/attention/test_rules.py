# SPDX-License-Identifier: MIT
"""What needs a person: each rule, at its threshold."""

from datetime import timedelta

import pytest

from redrive.attention import AttentionItem, Facts, GroupFact, PipelineFact, QueueFact, RouteFact, Thresholds, items_of
from redrive.clock import utc
from redrive.errors import InvalidSetting
from redrive.recovery import Filter, Kind, Operation, OperationState, Plan, Progress

NOW = utc(1_800_000_000)


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


def group(lately=0, usual=0.0, first=90_000, count=19, id_="g1"):
    return GroupFact(
        id=id_, title="ConnectionError in orders", count=count, first_failed_at=ago(first), lately=lately, usual=usual
    )


def operation(state, ended=None, canary=None, kind=Kind.RECOVER, by=None, **progress):
    plan = Plan(kind=kind, filter=Filter(), canary=canary) if canary else Plan(kind=kind, filter=Filter())
    return Operation(
        number=7,
        plan=plan,
        state=state,
        progress=Progress(**progress),
        requested_at=ago(5_000),
        ended_at=None if ended is None else ago(ended),
        acknowledged_by=by,
    )


def said(**facts):
    return [(item.rule, item.subject) for item in items_of(Facts(now=NOW, **facts))]


def test_where_all_is_well_nothing_is_said():
    assert said() == []


@pytest.mark.parametrize(
    ("lately", "usual", "rises"),
    [(20, 5.0, True), (19, 0.0, False), (20, 5.1, False), (400, 100.0, True), (399, 100.0, False)],
)
def test_a_group_rises_at_four_times_its_usual_and_at_least_20(lately, usual, rises):
    assert said(groups=(group(lately, usual),)) == ([("group-rises", "group:g1")] if rises else [])


def test_a_sentence_says_what_how_many_and_what_is_usual():
    (item,) = items_of(Facts(now=NOW, groups=(group(1_204, 3.0, count=4_904),)))
    assert item.sentence == (
        "ConnectionError in orders: 1,204 failures in the last 10 minutes, usually 3; 4,904 unresolved"
    )


@pytest.mark.parametrize(("age", "is_new"), [(3_599, True), (3_600, False)])
def test_a_group_is_new_for_an_hour_and_does_not_rise_then(age, is_new):
    assert said(groups=(group(5_000, first=age),)) == (
        [("new-group", "group:g1")] if is_new else [("group-rises", "group:g1")]
    )


@pytest.mark.parametrize(("count", "is_said"), [(20, True), (19, False)])
def test_failures_of_an_old_group_wait_for_a_decision(count, is_said):
    assert said(groups=(group(count=count),)) == ([("group-waits", "group:g1")] if is_said else [])


def test_one_failure_waits_where_one_is_enough():
    (item,) = items_of(Facts(now=NOW, groups=(group(count=1),)), Thresholds(waiting_least=1))
    assert item.sentence == "ConnectionError in orders: 1 failure waits for a decision"


def test_the_three_largest_groups_that_wait_are_named_and_none_that_rises_or_is_new():
    waiting = [group(count=100 + number, id_=f"g{number}") for number in range(5)]
    others = [group(lately=500, count=500, id_="rises"), group(first=1, count=500, id_="new")]
    found = said(groups=(*waiting, *others))
    assert [subject for rule, subject in found if rule == "group-waits"] == ["group:g4", "group:g3", "group:g2"]
    assert {subject for rule, subject in found if rule != "group-waits"} == {"group:rises", "group:new"}


def test_an_operation_that_its_canaries_stopped_needs_a_decision():
    stopped = operation(OperationState.PAUSED, canary=5, total=100, forwarded=5, failed_again=2, remaining=95)
    (item,) = items_of(Facts(now=NOW, operations=(stopped,)))
    assert (item.rule, item.subject, item.count) == ("canaries-failed", "operation:7", 95)
    assert item.sentence == "Operation 7 is paused: 2 of 5 canaries failed again; 95 not sent"


def test_an_operation_that_a_person_paused_later_does_not():
    assert said(operations=(operation(OperationState.PAUSED, canary=5, total=100, forwarded=50, remaining=50),)) == []
    assert said(operations=(operation(OperationState.PAUSED, total=100, remaining=100),)) == []


@pytest.mark.parametrize("by", [None, "ann"])
def test_an_operation_that_ended_with_failures_needs_a_look_until_it_is_acknowledged(by):
    ended = operation(OperationState.COMPLETED, ended=60, by=by, total=9, forwarded=8, failed=1, failed_again=3)
    assert said(operations=(ended,)) == ([("operation-failed", "operation:7")] if by is None else [])


@pytest.mark.parametrize(("ended", "kind", "is_said"), [(1_801, Kind.RECOVER, True), (1_800, Kind.RECOVER, False)])
def test_messages_without_a_confirmation_are_named_after_half_an_hour(ended, kind, is_said):
    sent = operation(OperationState.COMPLETED, ended=ended, kind=kind, total=3, forwarded=3, waiting=2, succeeded=1)
    assert said(operations=(sent,)) == ([("unconfirmed", "operation:7")] if is_said else [])


@pytest.mark.parametrize(("age", "is_said"), [(601, True), (600, False)])
def test_a_queue_that_none_reads_is_named_after_ten_minutes(age, is_said):
    queue = QueueFact(name="orders", ready=3, oldest_at=ago(age))
    found = items_of(Facts(now=NOW, queues=(queue,)))
    assert [item.sentence for item in found] == (
        ["3 messages wait in orders, and none was received for 10 minutes"] if is_said else []
    )


def route(**changes):
    fields = {
        "name": "copy",
        "state": "running",
        "reason": "",
        "waiting": 4,
        "oldest_at": ago(60),
        "sent": 0,
        "failed": 0,
    }
    return RouteFact(**fields | changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"state": "paused", "reason": "maintenance"}, "Route copy is paused (maintenance): 4 events wait"),
        ({"failed": 1, "waiting": 1}, "Route copy delivers nothing: 1 attempt failed lately; 1 event waits"),
        ({"failed": 9, "sent": 1}, None),
        ({"state": "paused", "waiting": 0}, None),
        ({}, None),
    ],
)
def test_a_route_that_does_not_get_on_is_named(changes, sentence):
    found = items_of(Facts(now=NOW, routes=(route(**changes),)))
    assert [item.sentence for item in found] == ([] if sentence is None else [sentence])


def test_stuck_tasks_and_messages_that_were_set_aside_are_named():
    facts = {"pipelines": (PipelineFact(name="bills", stuck=2, oldest_at=ago(900)),), "set_aside": 1}
    found = items_of(Facts(now=NOW, **facts))
    assert [item.sentence for item in found] == [
        "2 tasks of pipeline bills are overdue or failed",
        "1 message could not be read as a failure, and is set aside",
    ]


def test_operations_under_way_without_a_process_are_the_most_urgent():
    running = operation(OperationState.RUNNING, total=5, remaining=5)
    assert said(operations=(running,), services=0, groups=(group(100),))[0] == ("unserved", "services")
    assert said(operations=(running,), services=1) == []
    assert said(operations=(operation(OperationState.PAUSED, total=5, remaining=5),), services=0) == []


def test_thresholds_can_be_changed_and_are_checked():
    limits = Thresholds(rising_least=5, rising_times=2.0)
    assert len(items_of(Facts(now=NOW, groups=(group(6, 3.0),)), limits)) == 1
    with pytest.raises(InvalidSetting):
        Thresholds(unread_s=-1)
    with pytest.raises(InvalidSetting):
        Thresholds(rising_least=0)
    with pytest.raises(InvalidSetting):
        Thresholds(waiting_least=0)


def test_a_title_from_outside_stays_on_its_line():
    hostile = GroupFact(id="g", title="a\nb" * 500, count=1, first_failed_at=ago(1), lately=0, usual=0.0)
    (item,) = items_of(Facts(now=NOW, groups=(hostile,)))
    assert isinstance(item, AttentionItem)
    assert "\n" not in item.sentence
    assert len(item.sentence) < 200
