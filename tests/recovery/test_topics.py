# SPDX-License-Identifier: MIT
"""A subscription that fails is recovered alone: the others handle each event once."""

import pytest

from redrive import connect, open_recovery
from redrive.broker import Message
from redrive.worker import Context, Recoverability, Worker


@pytest.mark.parametrize("error_queue", ["error", None], ids=["error queue", "dead letters"])
async def test_only_the_subscription_that_failed_gets_its_messages_again(tmp_path, error_queue):
    worker, handled, is_down = Worker(), {"billing": [], "audit": []}, True

    @worker.handler("incoming")
    async def accept(order: dict, context: Context):
        context.send("orders", Message.of(order))

    once = Recoverability(immediate=0, delayed=None, error_queue=error_queue)

    @worker.handler("orders/billing", recoverability=once, slow_down=None)
    async def bill(order: dict):
        if is_down and order["number"] % 2:
            raise ConnectionError("the bank does not answer")
        handled["billing"].append(order["number"])

    @worker.handler("orders/audit")
    async def audit(order: dict):
        handled["audit"].append(order["number"])

    async with connect(f"sqlite:///{tmp_path}/shop.db") as broker:
        for queue in ("incoming", "error"):
            await broker.declare(queue)
        await broker.declare_topic("orders")
        for name in handled:
            await broker.subscribe("orders", name)
        await broker.send_many("incoming", [{"number": number} for number in range(6)])
        await worker.run(broker, until_idle=True)
        assert sorted(handled["billing"]) == [0, 2, 4]

        is_down = False
        async with open_recovery(broker, sources=[error_queue or "orders/billing/$dead"]) as recovery:
            await recovery.ingest()
            asked = await recovery.recover("queue:orders/billing")
            for _ in range(2):  # sends them, and reads what the worker has confirmed
                while await recovery.step():
                    pass
                await worker.run(broker, until_idle=True)
            done = await recovery.operation(asked.number)

    assert (done.progress.succeeded, done.progress.total) == (3, 3)
    assert {name: sorted(numbers) for name, numbers in handled.items()} == {name: [*range(6)] for name in handled}
