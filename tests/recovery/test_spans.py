# SPDX-License-Identifier: MIT
"""A recovered message stays in its trace: the recovery is linked to it, and its next attempt to the one that failed."""

from redrive import connect, open_recovery
from redrive.testing import ManualClock
from redrive.worker import Recoverability, Worker
from tests.spans import collected, links_of


async def test_a_recovery_is_a_span_that_is_linked_to_the_messages_it_sends(monkeypatch):
    is_back, worker = [], Worker()

    @worker.handler("orders", recoverability=Recoverability(immediate=0, delayed=None, error_queue="error"))
    async def ship(_body: bytes) -> None:
        if not is_back:
            raise ConnectionError

    with collected(monkeypatch) as spans:
        async with connect("sqlite:///:memory:", clock=ManualClock()) as broker, open_recovery(broker) as recovery:
            for queue in ("orders", "error"):
                await broker.declare(queue)
            await broker.send("orders", b"1")
            await worker.run(broker, until_idle=True)
            await recovery.ingest()
            asked = await recovery.recover("queue:orders")
            await recovery.step()
            is_back.append(True)
            await worker.run(broker, until_idle=True)
    sent = spans.one("send orders")
    recovered = spans.one("recover orders")
    assert (recovered.kind.name, links_of(recovered)) == ("PRODUCER", {sent.context.span_id})
    assert recovered.attributes["redrive.operation"] == asked.number
    failed, handled = spans.named("process orders")
    assert handled.context.trace_id == failed.context.trace_id == sent.context.trace_id
    assert links_of(handled) == {failed.context.span_id}
