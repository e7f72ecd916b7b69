# SPDX-License-Identifier: MIT
"""What statuses mean."""

import pytest

from redrive.http.status import LONGEST_PAUSE
from redrive.routes.http_status import outcome_of
from redrive.routes.outcomes import Delivered, DestinationDown, Rejected, Throttled, TryLater

NOW = 1_767_484_800.0  # Sun, 04 Jan 2026 00:00:00 GMT

MATRIX = {
    Delivered: [200, 201, 202, 204, 226, 299],
    Throttled: [429],
    TryLater: [408, 425, 500, 501, 505, 507, 511, 599],
    DestinationDown: [502, 503, 504],
    Rejected: [100, 101, 300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 451, 600],
}


@pytest.mark.parametrize(("kind", "status"), [(kind, status) for kind, all_ in MATRIX.items() for status in all_])
def test_the_matrix(kind, status):
    assert type(outcome_of(status, {}, NOW)) is kind


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 507])
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("Sun, 04 Jan 2026 00:02:00 GMT", 120.0),
        ("Sat, 03 Jan 2026 00:00:00 GMT", 0.0),
        ("999999999999", LONGEST_PAUSE),
        ("Sun, 04 Jan 2126 00:00:00 GMT", LONGEST_PAUSE),
        ("-5", None),
        ("soon", None),
        ("", None),
    ],
)
def test_a_pause_that_is_asked_for_is_kept_to(status, text, seconds):
    assert outcome_of(status, {"Retry-After": text}, NOW).after == seconds


def test_the_reason_has_the_status_and_what_was_said():
    assert outcome_of(404, {}, NOW, said="no such hook") == Rejected("the destination answered 404: no such hook")
    assert outcome_of(500, {}, NOW) == TryLater("the destination answered 500")


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("delivered", Delivered),
        ("try_later", TryLater),
        ("down", DestinationDown),
        ("throttled", Throttled),
        ("rejected", Rejected),
    ],
)
@pytest.mark.parametrize("status", [200, 302, 404, 429, 503])
def test_a_route_may_see_a_status_otherwise(word, kind, status):
    assert type(outcome_of(status, {}, NOW, {status: word})) is kind
    assert type(outcome_of(status, {}, NOW, ((status, word),))) is kind
    assert type(outcome_of(500, {}, NOW, {status: word})) is TryLater
