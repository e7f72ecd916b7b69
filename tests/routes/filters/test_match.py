# SPDX-License-Identifier: MIT
"""The filter that lets through what an expression is true of."""

import pytest

from redrive.errors import ExpressionFailed, InvalidExpression, InvalidSetting
from redrive.routes.filters.match import MatchFilter
from tests.routes.filters.events import event, leg


@pytest.mark.parametrize(
    ("expression", "passes"),
    [
        ("body.total > 100", True),
        ("body.total > 1000", False),
        ("headers.region == 'eu' && subject == 'order'", True),
        ("has(body.missing)", False),
    ],
)
def test_an_event_passes_if_the_expression_is_true(expression, passes):
    order = event({"total": 200}, subject="order", headers={"region": "eu"})
    assert list(MatchFilter(expression).apply(order, leg())) == ([order] if passes else [])


def test_an_expression_that_fails_is_an_error_of_the_event():
    with pytest.raises(ExpressionFailed, match="there is no 'total'"):
        MatchFilter("body.total > 100").apply(event({}), leg())
    with pytest.raises(ExpressionFailed, match="the body is no JSON"):
        MatchFilter("body.total > 100").apply(event(b"\xff"), leg())


def test_an_expression_is_checked_when_the_filter_is_made():
    with pytest.raises(InvalidExpression, match="write == instead of ="):
        MatchFilter("body.total = 100")
    with pytest.raises(InvalidSetting, match="must be an expression"):
        MatchFilter("")
