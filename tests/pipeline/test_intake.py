# SPDX-License-Identifier: MIT
"""How the receive stage answers over HTTP."""

import httpx
import pytest

from redrive.errors import SubmissionRefused
from tests.pipeline.pipeline_bench import pipeline


def refuse(submission):
    raise SubmissionRefused("not today", status=int(submission.headers["x-status"]))


def lines(submission):
    if "x-status" in submission.headers:
        refuse(submission)
    return submission.body.split(b"\n")


@pytest.fixture
async def post(bench):
    """Post a body to a pipeline that is received over HTTP; return the answer."""
    pipe = pipeline("now", receive=lines)
    pipe._settings.update(path="/reports", max_bytes=10, needs_key=True)
    await bench.start(pipe)
    await bench.until(lambda: bench.runner.http.port)

    async def posted(body, **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with httpx.AsyncClient(trust_env=False) as client:
            return await client.post(f"http://127.0.0.1:{bench.runner.http.port}/reports", content=body, headers=named)

    return posted


async def test_each_answer_says_whether_to_come_again(post):
    assert (await post(b"a\nb", idempotency_key="k")).status_code == 201
    again = await post(b"a\nb", idempotency_key="k")
    assert (again.status_code, again.json()["repeated"]) == (200, True)
    assert (await post(b"c", idempotency_key="k")).status_code == 409
    assert (await post(b"x" * 11, idempotency_key="l")).status_code == 413
    without = await post(b"a")
    assert (without.status_code, "Idempotency-Key" in without.json()["detail"]) == (400, True)


@pytest.mark.parametrize(("status", "answered"), [("403", 403), ("422", 422), ("200", 422), ("503", 422)])
async def test_what_is_refused_is_never_answered_as_taken(post, status, answered):
    answer = await post(b"a", idempotency_key="k", x_status=status)
    assert (answer.status_code, answer.json()["detail"]) == (answered, "not today")
