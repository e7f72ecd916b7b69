# SPDX-License-Identifier: MIT
"""The filter that builds a new body."""

import pytest

from redrive.errors import ExpressionFailed, InvalidExpression, InvalidPayload, InvalidSetting
from redrive.routes import event_values
from redrive.routes.filters.transform import TransformFilter
from tests.routes.filters.events import bodies, event, leg

ORDER = event({"id": 12345678901234567890, "items": [{"n": 1}, {"n": 2}]}, subject="order", headers={"region": "eu"})


def test_a_path_gives_the_new_body():
    (made,) = TransformFilter("{order: body.id, numbers: body.items[].n, region: headers.region}").apply(ORDER, leg())
    assert bodies([made]) == [{"order": 12345678901234567890, "numbers": [1, 2], "region": "eu"}]
    assert made.content_type == "application/json"
    assert (made.id, made.subject, made.headers) == ("o-1", "order", {"region": "eu"})


def test_a_table_gives_an_object():
    made = TransformFilter(fields={"order": "body.id", "what": "subject", "none": "body.missing"}).apply(ORDER, leg())
    assert bodies(made) == [{"order": 12345678901234567890, "what": "order", "none": None}]


def test_a_new_body_may_be_any_json():
    assert TransformFilter("body.missing").apply(ORDER, leg())[0].body == b"null"
    assert TransformFilter("subject").apply(ORDER, leg())[0].body == b'"order"'


def test_the_body_is_read_once_for_all_fields(monkeypatch):
    read = []
    monkeypatch.setattr(event_values, "body_value", lambda message: read.append(message) or {})
    TransformFilter(fields={"a": "body.a", "b": "body.b", "c": "body.c"}).apply(ORDER, leg())
    assert len(read) == 1


@pytest.mark.parametrize("settings", [{}, {"to": "body", "fields": {"a": "body"}}])
def test_one_of_both_is_given(settings):
    with pytest.raises(InvalidSetting, match="must be given, or else fields, and not both"):
        TransformFilter(**settings)


@pytest.mark.parametrize("settings", [{"to": "body."}, {"fields": {"a": "body", "b": "total"}}])
def test_paths_are_checked_when_the_filter_is_made(settings):
    with pytest.raises(InvalidExpression):
        TransformFilter(**settings)


def test_an_event_that_cannot_be_transformed_is_an_error():
    with pytest.raises(InvalidPayload, match="the body is no JSON"):
        TransformFilter("body.a").apply(event(b"no json"), leg())
    with pytest.raises(ExpressionFailed, match=r"abs\(\)"):
        TransformFilter("abs(subject)").apply(ORDER, leg())
    with pytest.raises(InvalidPayload, match="cannot be written as JSON"):
        TransformFilter("body.n").apply(event(b'{"n": 1e400}'), leg())
