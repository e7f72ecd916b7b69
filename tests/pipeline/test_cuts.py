# SPDX-License-Identifier: MIT
"""Connections to PostgreSQL that are cut at every moment of a pipeline's steps: no doubt remains about what is stored.

D1 of the table of crashes: what is told to a stage is what is stored, once, or that the store does not answer.
"""

import asyncio

import pytest

from redrive import connect, open_pipeline
from redrive.engines.postgres.session_settings import Connection
from redrive.pipeline import Output, Pipeline, ShipmentState, TaskState, TaskToken
from redrive.pipeline.new_tasks import Source, TaskMaker, items_of
from redrive.pipeline.records import NewAction, SendResult, ShipmentResult
from redrive.pipeline.states import TaskEvent
from redrive.pipeline.transports.call import CallTransport
from tests.engines.postgres.breaking import UNAVAILABLE, outcome
from tests.engines.postgres.test_cuts import cut_everywhere
from tests.postgres.proxy import ABANDONED, LOST, UNANSWERED, Proxy

each_cut = pytest.mark.parametrize("how", [LOST, UNANSWERED, ABANDONED])


def pipeline():
    pipe = Pipeline("reports")
    pipe.process(lambda report: [Output("there", report.items)])
    pipe.destination("there", CallTransport(print))
    return pipe


@pytest.fixture
async def proxy(breakable_postgres):
    async with Proxy(breakable_postgres) as proxy:
        yield proxy


@pytest.fixture
async def witness(breakable_url):
    """The pipeline over connections that nobody cuts."""
    async with connect(breakable_url) as broker, open_pipeline(broker, pipeline()) as opened:
        yield opened


@pytest.fixture
async def reports(witness, proxy, breakable_url):
    """The pipeline behind the proxy, which has done everything once."""
    async with connect(proxy.through(breakable_url)) as broker, open_pipeline(broker, pipeline()) as opened:
        await opened.submit(b"first", key="first")
        assert len(await witness.tasks("reports")) == 1
        yield opened


@each_cut
async def test_a_submission_that_is_cut_off_is_stored_once_or_not_at_all(reports, proxy, witness, how):
    async def attempt(name):
        told = await outcome(reports.submit(b"body", key=name))
        await proxy.settled()
        accepted = await witness.ledger.submission("reports", name)
        assert (accepted is None) == (told == UNAVAILABLE)
        assert accepted is None or (accepted.task == told.task and told.is_new)
        if accepted is not None:
            assert [each.name for each in (await witness.show(told.task)).history] == ["receive"]

    await cut_everywhere(proxy, how, attempt)


async def to_send(witness, key):
    """Make a send task that is ready; return its token."""
    receipt = await witness.submit(b"body", key=key)
    token = TaskToken(receipt.task)
    _, items = await witness.ledger.process_input(token)
    sources = [Source(token.task, item) for item in items]
    maker = TaskMaker(plan=witness.plan, version=witness.version, now=0.0)
    child = maker.for_sending(f"send-{key}", witness.plan.destination("there"), items_of(sources), sources, None)
    inside = witness.ledger.finish_process(token, "reports", [child], NewAction(name="process"))
    await witness.broker.apply(inside=inside)
    return TaskToken(child.id)


@each_cut
async def test_what_is_about_to_be_sent_is_never_taken_for_out_of_date_when_the_answer_is_lost(
    reports, proxy, witness, how
):
    async def attempt(name):
        cuts, proxy._cuts = proxy._cuts, []
        token = await to_send(witness, name)
        proxy._cuts = cuts
        told = await outcome(reports.ledger.begin_send(token, None, 1))
        await proxy.settled()
        (shipment,) = await witness.ledger.shipments(token.task)
        assert told is not None
        if told != UNAVAILABLE:
            assert [each.info.index for each in told.shipments] == [1]
            assert (shipment.state, shipment.attempt) == (ShipmentState.INTENT, 1)

    await cut_everywhere(proxy, how, attempt)


@each_cut
async def test_an_outcome_that_is_cut_off_is_stored_once_or_not_at_all(reports, proxy, witness, how):
    done = SendResult(
        shipments=(ShipmentResult(index=1, state=ShipmentState.SENT),),
        event=TaskEvent.FINISH,
        action=NewAction(name="send"),
    )

    async def attempt(name):
        cuts, proxy._cuts = proxy._cuts, []
        token = await to_send(witness, name)
        await witness.ledger.begin_send(token, None, 1)
        proxy._cuts = cuts
        inside = reports.ledger.finish_send(token, done, "reports", "there")
        told = await outcome(reports.broker.apply(inside=inside))
        await proxy.settled()
        detail = await witness.show(token.task)
        is_stored = told != UNAVAILABLE
        assert detail.task.state is (TaskState.DONE if is_stored else TaskState.READY)
        assert detail.shipments[0].state is (ShipmentState.SENT if is_stored else ShipmentState.INTENT)
        assert [each.name for each in detail.history] == (["send"] if is_stored else [])

    await cut_everywhere(proxy, how, attempt)


async def test_what_many_submit_at_once_is_one_statement(reports, monkeypatch):
    asked = []
    fetch = Connection.fetch

    async def noted(connection, text, *values, **more):
        asked.append(text)
        return await fetch(connection, text, *values, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "fetch", noted)
        await asyncio.gather(*(reports.submit(b"body", key=f"many {n}") for n in range(8)))
    ours = [text for text in asked if "pipeline_" in text or "exchange(" in text]
    assert 1 <= len(ours) <= 2  # the first one may go ahead of the others
    assert all("pipeline_submissions" in text and "exchange(" in text for text in ours)
