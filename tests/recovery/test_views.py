# SPDX-License-Identifier: MIT
"""Failed messages and operations as JSON: the names are a promise, whoever prints them."""

import json
from dataclasses import fields
from datetime import UTC, datetime

from redrive.broker import Message, Received, State
from redrive.recovery import (
    Canary,
    DryRun,
    FailedAttempt,
    FailedDetail,
    FailedMessage,
    Filter,
    Holder,
    Note,
    Operation,
    OperationState,
    Outcome,
    Part,
    Plan,
    Preview,
    SetAside,
    Status,
    views,
)

AT = datetime(2026, 11, 1, 10, tzinfo=UTC)
ISO = "2026-11-01T10:00:00+00:00"
FAILED = FailedMessage(
    number=1,
    id="a" * 32,
    message_id="m",
    queue="orders",
    status=Status.RETRY_ISSUED,
    message_type="order",
    exception_type="ValueError",
    exception_message="no address",
    group="g",
    attempts=2,
    first_failed_at=AT,
    failed_at=AT,
)
PART = Part(operation=7, failure=1, id="a" * 32, outcome=Outcome.FAILED_AGAIN, reason="", at=AT)
NOTE = Note(number=1, subject="operation:7", text="wait", actor="ana", at=AT)


def test_a_record_has_its_fields_with_words_for_states_and_iso_times():
    view = views.record_view(FAILED)
    assert list(view) == [each.name for each in fields(FailedMessage)]
    assert (view["status"], view["failed_at"], view["operation"]) == ("retry-issued", ISO, None)
    assert views.records_view([PART, NOTE])[0]["outcome"] == "failed-again"


def test_everything_about_a_failed_message_is_on_one_level_with_its_message():
    detail = FailedDetail(
        summary=FAILED,
        message=Message(b"\xff", headers={"customer": 7}),
        attempts=[FailedAttempt(failed_at=AT, operation=None, details={"stack_trace": "…"})],
        parts=[PART],
        notes=[NOTE],
    )
    view = views.detail_view(detail)
    assert json.loads(json.dumps(view)) == view
    assert view["number"] == 1
    assert (view["message"]["body"], view["message"]["body_encoding"]) == ("/w==", "base64")
    assert view["attempts_kept"] == [{"failed_at": ISO, "operation": None, "stack_trace": "…"}]
    assert (view["operations"][0]["operation"], view["notes"][0]["text"]) == (7, "wait")


def test_an_operation_has_its_figures_its_filter_as_a_text_and_its_plan():
    plan = Plan(filter=Filter(queues=("orders",)), rate=5.0, canary=Canary(count=2))
    operation = Operation(number=7, plan=plan, state=OperationState.PAUSED, requested_at=AT, unknown_ids=("x",))
    view = views.operation_view(operation)
    assert json.loads(json.dumps(view)) == view
    assert list(view)[:3] == ["number", "kind", "state"]
    assert (view["state"], view["filter"], view["unknown_ids"]) == ("paused", "queue:orders", ["x"])
    assert view["plan"]["canary"] == {"count": 2, "max_failures": 0, "patience": 300.0}
    assert view["progress"]["total"] == 0
    assert (view["requested_at"], view["ended_at"]) == (ISO, None)
    assert view.keys() >= {each.name for each in fields(Operation)}


def test_the_messages_of_an_operation_are_there_if_they_were_asked_for():
    operation = Operation(number=7, plan=Plan(), state=OperationState.COMPLETED, requested_at=AT)
    assert "messages" not in views.operation_detail_view(operation, [NOTE], None)
    view = views.operation_detail_view(operation, [NOTE], [PART])
    assert ([each["failure"] for each in view["messages"]], len(view["notes"])) == ([1], 1)


def test_what_could_not_be_read_has_the_message_as_it_was_found():
    received = Received(Message(b"odd", id="odd"), "error", 4, State.READY, AT, 1)
    view = views.set_aside_view(SetAside(number=2, received=received, reason="no queue", at=AT))
    assert (view["number"], view["reason"], view["at"]) == (2, "no queue", ISO)
    assert (view["message"]["queue"], view["message"]["body"]) == ("error", "odd")


def test_a_dry_run_has_what_it_would_find_and_what_nobody_has_read():
    holder = Holder(operation=3, state=OperationState.PAUSED, count=2, actor="ana")
    found = DryRun(matched=3, free=1, taken=2, blocking=3, holders=[holder], by_destination={"orders": 1})
    view = views.dry_run_view(found, Filter(queues=("orders",)), [Preview("a", ["+x"])], {"error": 4})
    assert json.loads(json.dumps(view)) == view
    assert view["holders"] == [{"operation": 3, "state": "paused", "count": 2, "actor": "ana"}]
    assert (view["filter"], view["unread"], view["by_destination"]) == ("queue:orders", {"error": 4}, {"orders": 1})
    assert view["previews"] == [{"id": "a", "changes": ["+x"], "problem": ""}]
    assert views.dry_run_view(found, None, [], {})["filter"] is None
    assert views.previews_view([Preview("a", [], "no JSON")])["previews"][0]["problem"] == "no JSON"


def test_what_came_of_a_request_is_a_few_numbers():
    assert views.count_view(3) == {"count": 3}
    assert views.ingest_view(2, 1, ("error",)) == {"read": 2, "set_aside": 1, "sources": ["error"]}
    assert views.reimport_view(1, 0) == {"read": 1, "left": 0}
    assert views.sweep_view(9) == {"deleted": 9}
    assert views.note_removed_view(1) == {"note": 1, "removed": True}
    assert views.redirects_view({"a": "b"}) == [{"from": "a", "to": "b"}]
    assert views.redirect_view("a", None) == {"from": "a", "to": None}
