# SPDX-License-Identifier: MIT
"""What many submit, process and send at the same moment is stored together: each is accepted, or refused, by itself."""

import asyncio

from redrive import connect, open_pipeline
from redrive.errors import SubmissionConflict, TaskConflict
from redrive.pipeline import Output, Pipeline, TaskState, TaskToken
from redrive.pipeline.records import NewAction
from redrive.pipeline.transports.call import CallTransport


def pipeline():
    pipe = Pipeline("reports")
    pipe.process(lambda report: [Output("there", report.items)])
    pipe.destination("there", CallTransport(print))
    return pipe


async def test_of_many_with_the_same_key_one_is_stored_and_the_others_get_its_task(url):
    async with connect(url) as broker, open_pipeline(broker, pipeline()) as reports:
        bodies = [b"a", b"b", b"a", b"c", b"a", b"d"]
        receipts = await asyncio.gather(*(reports.submit(body, key=body.decode()) for body in bodies))
        first, *again = [receipt for body, receipt in zip(bodies, receipts, strict=True) if body == b"a"]
        assert sum(receipt.is_new for receipt in receipts) == 4
        assert {receipt.task for receipt in again} == {first.task}
        assert len(await reports.tasks("reports")) == 4
        (queue,) = [each for each in await broker.queues() if each.name == "pipelines/reports/process"]
        assert queue.ready == 4


async def test_one_that_is_refused_takes_no_other_with_it(url):
    async with connect(url) as broker, open_pipeline(broker, pipeline()) as reports:
        await reports.submit(b"a", key="taken")
        keys = ["x", "taken", "y"]
        found = await asyncio.gather(*(reports.submit(b"b", key=key) for key in keys), return_exceptions=True)
        assert [type(each) for each in found][1] is SubmissionConflict
        assert found[0].is_new
        assert found[2].is_new
        assert len(await reports.tasks("reports")) == 3


async def test_a_task_is_finished_once_however_many_finish_it(url):
    async with connect(url) as broker, open_pipeline(broker, pipeline()) as reports:
        tasks = [(await reports.submit(b"a", key=key)).task for key in "abc"]
        tokens = [TaskToken(task) for task in (*tasks, tasks[0], "unknown")]
        done = NewAction(name="process")
        finished = [broker.apply(inside=reports.ledger.finish_process(token, "reports", [], done)) for token in tokens]
        found = await asyncio.gather(*finished, return_exceptions=True)
        assert [isinstance(each, TaskConflict) for each in found].count(True) == 2
        assert isinstance(found[4], TaskConflict)
        assert {each.state for each in await reports.tasks("reports")} == {TaskState.DONE}
        for task in tasks:
            detail = await reports.show(task)
            assert [each.name for each in detail.history] == ["receive", "process"]
