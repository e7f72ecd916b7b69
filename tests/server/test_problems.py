# SPDX-License-Identifier: MIT
"""Every error is a problem with a code and a remedy, and the inside of the server stays inside."""

import pytest

from redrive.errors import (
    CircuitOpen,
    EngineUnavailable,
    QueueNotFound,
    RedriveError,
    SignInRequired,
    TooManyAttempts,
)
from redrive.server.problems import problem_of, response_of
from tests.server.conftest import Someone, client_of


def test_the_fix_is_what_the_text_says_after_what_is_wrong():
    assert problem_of(SignInRequired())["fix"].startswith("send a token as: Authorization")
    assert problem_of(RedriveError("odd"))["fix"] is None
    assert problem_of(QueueNotFound("ordres", "orders"))["fix"] == "did you mean 'orders'?"


def test_control_characters_of_a_name_are_spelled_out():
    assert "\\x1b" in problem_of(QueueNotFound("a\x1b[2J"))["detail"]


@pytest.mark.parametrize(
    ("error", "header", "value"),
    [
        (SignInRequired(), "www-authenticate", 'Bearer realm="redrive"'),
        (TooManyAttempts(30.0), "retry-after", "31"),
        (CircuitOpen("billing", 1.5), "retry-after", "2"),
        (EngineUnavailable("away"), "retry-after", "2"),
    ],
)
def test_a_response_says_when_to_come_back_and_how(error, header, value):
    assert response_of(error).headers[header] == value


async def test_what_the_framework_refuses_is_a_problem_too(client):
    for answer, status, code in (
        (await client.get("/nothing"), 404, "unknown-path"),
        (await client.request("TRACE", "/queues"), 405, "wrong-method"),
        (await client.put("/queues/orders", content=b"{"), 422, "invalid-request"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.headers["content-type"] == "application/problem+json"


async def test_an_error_nobody_expected_says_nothing_about_the_inside(desk, caplog):
    class Broken(Someone):
        async def admit(self, request):
            raise ValueError("password of the database")

    answer = await client_of(desk, Broken(None)).get("/queues")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal-error")
    assert "password" not in answer.text
    assert "password of the database" in caplog.text
