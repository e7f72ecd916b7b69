# SPDX-License-Identifier: MIT
"""What was submitted here is processed without being read again; whatever has changed meanwhile counts all the same."""

import asyncio

import pytest

from redrive import connect, open_pipeline
from redrive.errors import SubmissionConflict
from redrive.pipeline import CallTransport, Output, Pipeline, PipelineRunner, TaskEnded, TaskState
from redrive.pipeline.fresh_inputs import FreshInputs
from redrive.pipeline.new_tasks import submitted
from redrive.pipeline.task_token import TaskToken
from tests.patience import PATIENCE_S


def pipeline(processed):
    """Return a pipeline that notes what it has processed."""
    pipe = Pipeline("reports")

    def process(report):
        processed.append(report.items[0].body)
        return [Output("there", report.items)]

    pipe.process(process)
    pipe.destination("there", CallTransport(print))
    return pipe


def task(number, *bodies):
    return submitted(pipeline([]).plan, 3, f"task-{number}", bodies)


def test_an_input_is_given_once():
    fresh = FreshInputs()
    fresh.keep(task(1, b"a", b"b"))
    found = fresh.taken(TaskToken("task-1"))
    assert found.version == 3
    assert [(each.index, each.id, each.body, each.body_id) for each in found.items] == [
        (1, "task-1.1", b"a", "task-1/1"),
        (2, "task-1.2", b"b", "task-1/2"),
    ]
    assert fresh.taken(TaskToken("task-1")) is None


@pytest.mark.parametrize("token", [TaskToken("task-1", epoch=1), TaskToken("task-1", retries=1)])
def test_the_input_of_a_task_that_was_changed_is_read(token):
    fresh = FreshInputs()
    fresh.keep(task(1, b"a"))
    assert fresh.taken(token) is None
    assert fresh.taken(TaskToken("task-1")) is None


def test_no_more_is_kept_than_is_allowed():
    fresh = FreshInputs(10)
    for number in range(5):
        fresh.keep(task(number, bytes(4)))
    assert [fresh.taken(TaskToken(f"task-{number}")) is not None for number in range(5)] == [False] * 3 + [True] * 2
    fresh.keep(task(6, bytes(11)))
    assert fresh.taken(TaskToken("task-6")) is None
    fresh.keep(task(7, bytes(10)))
    assert fresh.taken(TaskToken("task-7")) is not None, "the bytes of what is gone do not count"


async def until_processed(opened, tasks):
    """Run a pipeline until so many of its process tasks have ended."""
    ended = asyncio.Semaphore(0)
    runner = PipelineRunner(opened, on_event=lambda e: ended.release() if isinstance(e, TaskEnded) else None)
    running = asyncio.create_task(runner.run())
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(2 * tasks):  # processed, and sent
            await ended.acquire()
        runner.stop()
        await running


async def test_what_was_submitted_here_is_not_read_again(url, monkeypatch):
    async def unread(*_):
        raise AssertionError("it is known")

    processed = []
    async with connect(url) as broker, open_pipeline(broker, pipeline(processed)) as opened:
        monkeypatch.setattr(type(opened.ledger), "process_input", unread)
        for number in range(3):
            await opened.submit(f"report {number}", key=str(number))
        await until_processed(opened, 3)
    assert sorted(processed) == [b"report 0", b"report 1", b"report 2"]


async def test_what_another_process_has_taken_is_read(url):
    processed = []
    async with connect(url) as broker, open_pipeline(broker, pipeline(processed)) as opened:
        async with open_pipeline(broker, pipeline([])) as another:
            await another.submit("from elsewhere", key="1")
        await until_processed(opened, 1)
    assert processed == [b"from elsewhere"]


async def test_what_was_cancelled_before_it_was_processed_is_not_processed(url):
    processed = []
    async with connect(url) as broker, open_pipeline(broker, pipeline(processed)) as opened:
        unwanted = (await opened.submit("unwanted", key="1")).task
        await opened.cancel(unwanted)
        await opened.submit("wanted", key="2")
        await until_processed(opened, 1)
        assert (await opened.show(unwanted)).task.state is TaskState.CANCELLED
    assert processed == [b"wanted"]


async def test_a_submission_that_is_not_taken_is_not_kept(url):
    async with connect(url) as broker, open_pipeline(broker, pipeline([])) as opened:
        await opened.submit("one", key="1")
        assert not (await opened.submit("one", key="1")).is_new
        with pytest.raises(SubmissionConflict):
            await opened.submit("another", key="1")
        assert len(opened.fresh) == 1
