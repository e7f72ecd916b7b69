# SPDX-License-Identifier: MIT
"""Queues that are declared by the worker."""

import pytest

from redrive.errors import InvalidSetting, QueueConflict, QueueNotFound
from redrive.worker import Recoverability, Worker


def ignore(_body):
    """Handle a message by doing nothing."""


@pytest.fixture
def run(lab):
    async def runner(worker):
        await worker.run(lab.broker, until_idle=True)
        return {info.name: info.settings for info in await lab.broker.queues()}

    return runner


async def test_a_worker_declares_its_queues_and_their_error_queues(run):
    worker = Worker(declare=True)
    worker.handler("mails", declare={"lock_duration": 120, "max_message_bytes": 5_000_000})(ignore)
    worker.handler("bills", recoverability=Recoverability(error_queue="bills.failed"))(ignore)
    worker.handler("logs", recoverability=Recoverability(error_queue="mails"))(ignore)
    queues = await run(worker)
    assert sorted(queues) == ["bills", "bills.failed", "logs", "mails", "orders"]
    assert (queues["mails"].lock_duration, queues["bills"].lock_duration) == (120.0, 60.0)
    assert await run(worker) == queues  # once more: they are there


async def test_an_error_queue_takes_what_its_queue_takes(run):
    worker = Worker()
    settings = {"max_message_bytes": 5_000_000}
    worker.handler("mails", declare=settings, recoverability=Recoverability(error_queue="failed"))(ignore)
    assert (await run(worker))["failed"].max_message_bytes == 5_000_000


async def test_an_error_queue_that_is_there_stays_as_it_is(lab, run):
    await lab.broker.declare("failed", max_message_bytes=50_000_000)
    worker = Worker(declare=True)
    worker.handler("mails", recoverability=Recoverability(error_queue="failed"))(ignore)
    assert (await run(worker))["failed"].max_message_bytes == 50_000_000


async def test_a_handler_of_dead_letters_declares_the_queue_they_come_from(run):
    worker = Worker(declare=True)
    worker.handler("mails/$dead", recoverability=Recoverability(error_queue="failed"))(ignore)
    assert sorted(await run(worker)) == ["failed", "mails", "orders"]


async def test_a_handler_may_declare_or_not_whatever_its_worker_does(run):
    worker = Worker()
    worker.handler("mails", declare=True)(ignore)
    assert "mails" in await run(worker)
    worker = Worker(declare=True)
    worker.handler("bills", declare=False)(ignore)
    with pytest.raises(QueueNotFound, match="bills"):
        await run(worker)


async def test_a_queue_that_is_there_with_another_setting_is_a_conflict(lab, run):
    worker = Worker()
    worker.handler("orders", declare={"lock_duration": 120})(ignore)
    with pytest.raises(QueueConflict, match="lock_duration"):
        await run(worker)
    await lab.broker.update("orders", lock_duration=120, max_delivery_count=3)
    assert (await run(worker))["orders"].max_delivery_count == 3  # what is not stated is not compared


def test_a_worker_declares_or_does_not():
    with pytest.raises(InvalidSetting, match="declare"):
        Worker(declare={"lock_duration": 5})
