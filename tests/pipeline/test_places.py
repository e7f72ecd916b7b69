# SPDX-License-Identifier: MIT
"""The same story on both databases, and what a person sees in their tables; and submissions over HTTP."""

import asyncio
import sqlite3

import httpx
import psycopg
import pytest

from redrive.errors import SubmissionRefused
from redrive.pipeline import Every, ShipmentDelayed, ShipmentRefused, TaskState
from tests.pipeline.pipeline_bench import PipelineBench, ScriptedTransport, joined, lines, pipeline

SCRIPT = ScriptedTransport.script
STUCK = "select task_id, next_action, next_action_at, destination, item_count, created_at from {}task where "
QUERIES = {
    "sqlite": "next_action = '{}' and next_action_at < datetime('now', '-15 minutes') and state <> 'done'",
    "postgres": "next_action = '{}' and next_action_at < now() - interval '15 minutes' and state <> 'done'",
}


@pytest.fixture(params=["sqlite", "postgres"])
async def place(request, tmp_path):
    if request.param == "sqlite":
        url, prefix = f"sqlite:///{tmp_path}/pipeline.db", "redrive_"
    else:
        schema = request.getfixturevalue("postgres_schema")
        url = f"{request.getfixturevalue('postgres_url')}&schema={schema}"
        prefix = f'"{schema}".'
    made = PipelineBench(url)
    made.kind, made.prefix, made.url = request.param, prefix, url.partition("&schema")[0]
    async with made.broker:
        yield made
        await made.stop()


def ask(place, text):
    """Return what a person with sqlite3 or psql is answered."""
    if place.kind == "sqlite":
        with sqlite3.connect(place.url.removeprefix("sqlite:///")) as connection:
            return connection.execute(text).fetchall()
    with psycopg.connect(place.url) as connection:
        return connection.execute(text).fetchall()


def shop():
    pipe = pipeline("now")
    pipe.destination("lab", ScriptedTransport("lab"), timing=Every(3_600), merge=joined, jitter=0)
    pipe._settings["process"] = lambda report: list(_outputs(report))
    return pipe


def _outputs(report):
    from redrive.pipeline import Output

    if report.items[0].body == b"poison":
        raise OSError("no such schema")
    yield Output("now", report.items)
    yield Output("lab", report.items)


async def test_the_source_documents_questions_are_answered_by_its_own_queries(place):
    """The clock of the bench stands in the past, so what is not done is long overdue for the database."""
    reports = await place.start(shop())
    SCRIPT["now"] = [ShipmentRefused("no such patient")]
    await reports.submit(b"a")
    poison = await reports.submit(b"poison")

    async def is_there():
        states = await place.states()
        failed = states.get(("process", "")) == ["done", "failed"]
        return failed and states.get(("send", "now")) == ["failed"] and ("batch", "lab") in states

    await place.until(is_there, step=5.0)
    query = STUCK.format(place.prefix) + QUERIES[place.kind]
    assert [row[0] for row in ask(place, query.format("process"))] == [poison.task]
    assert [row[3] for row in ask(place, query.format("batch"))] == ["lab"]
    assert [row[3] for row in ask(place, query.format("send"))] == ["now"]
    for view, count in {"stuck_process": 1, "stuck_batch": 1, "stuck_send": 1, "failed_sends": 1}.items():
        assert len(ask(place, f"select task_id, state, reason from {place.prefix}{view}")) == count, view  # noqa: S608 - a test
    errors = f"select action_name from {place.prefix}action where action_name in ('send_error', 'process_error')"  # noqa: S608 - a test
    assert sorted(name for (name,) in ask(place, errors)) == ["process_error", "send_error"]
    assert ask(place, f"select state, reason from {place.prefix}effect") == [("refused", "no such patient")]  # noqa: S608 - a test
    assert len(ask(place, f"select parent_task_id, child_task_id from {place.prefix}lineage")) == 4  # noqa: S608 - a test


async def test_a_story_is_the_same_on_both_databases(place):
    reports = await place.start(shop())
    SCRIPT["now"] = [ShipmentDelayed("busy")]
    receipt = await reports.submit(b"a\nb", key="k")
    assert not (await reports.submit(b"a\nb", key="k")).is_new
    await place.until(lambda: len(ScriptedTransport.arrived["lab"]) == 1, step=60.0)
    await place.settled(step=60.0)
    assert sorted(body for _, body in ScriptedTransport.arrived["now"]) == [b"a", b"b"]
    assert [body for _, body in ScriptedTransport.arrived["lab"]] == [b"a|b"]
    trace = await reports.trace(receipt.task)
    assert sorted(task.stage for task in trace.tasks) == ["batch", "process", "send", "send"]
    assert await reports.stuck() == []
    slots = ask(place, f"select state, tasks from {place.prefix}slot where tasks > 0")  # noqa: S608 - a test
    assert slots == [("served", 1)]
    assert await reports.prune(place.clock.time() + 1) == 4


async def test_two_processes_share_the_work_and_serve_each_slot_once(place):
    reports = await place.start(shop())
    other = PipelineBench.__new__(PipelineBench)
    other.__dict__.update(place.__dict__)
    await other.start(shop())
    try:
        for number in range(20):
            await reports.submit(b"%d" % number)
        await place.until(lambda: len(ScriptedTransport.arrived["now"]) == 20)
        await place.until(lambda: ScriptedTransport.arrived["lab"], step=60.0)
        await place.settled(step=60.0)
    finally:
        await other.stop()
    parts = [part for _, body in ScriptedTransport.arrived["lab"] for part in body.split(b"|")]
    assert sorted(parts, key=int) == [b"%d" % number for number in range(20)]
    assert len(ScriptedTransport.attempts["now"]) == 20


async def test_a_submission_over_http_is_answered_when_it_is_stored(place):
    def checked(submission):
        if submission.body == b"no":
            raise SubmissionRefused("there is no patient", status=422)
        return lines(submission)

    pipe = shop()
    pipe._settings.update(path="/reports", max_bytes=100, needs_key=True, receive=checked)
    reports = await place.start(pipe)
    await place.until(lambda: place.runner.http.port)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{place.runner.http.port}") as client:

        async def post(body, key="k"):
            headers = {} if key is None else {"Idempotency-Key": key}
            return await client.post("/reports", content=body, headers=headers, timeout=60)

        first = await post(b"a")
        assert (first.status_code, first.json()["items"]) == (201, 1)
        assert (await reports.show(first.json()["task"])).task.state in (TaskState.READY, TaskState.DONE)
        again = await post(b"a")
        assert (again.status_code, again.json()["task"]) == (200, first.json()["task"])
        assert (await post(b"b")).status_code == 409
        refused = await post(b"no", "n")
        assert (refused.status_code, refused.json()["detail"]) == (422, "there is no patient")
        assert (await post(b"x", None)).status_code == 400
        assert (await post(b"x" * 101, "large")).status_code == 413
        assert (await client.get("/reports")).status_code == 405
        answers = await asyncio.gather(*(post(b"together", "same") for _ in range(8)))
        assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
        assert len({answer.json()["task"] for answer in answers}) == 1
