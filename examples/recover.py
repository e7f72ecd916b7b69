# SPDX-License-Identifier: MIT
"""Recovery: a bank that was down, payments in the wrong currency, and what a person does about both of them."""

import asyncio
import json
from dataclasses import dataclass
from typing import TypeAlias

from redrive import connect, open_recovery
from redrive.broker import Broker
from redrive.recovery import Canary, MessageFailed, MessageRecovered, Recovery, Transform
from redrive.telemetry import Event
from redrive.worker import Recoverability, Worker

Events: TypeAlias = asyncio.Queue[Event]

worker = Worker()
give_up_at_once = Recoverability(immediate=0, delayed=None, error_queue="error")


@dataclass
class Payment:
    """What is to be paid."""

    customer: str
    currency: str


@dataclass
class Bank:
    """A service that is not always there."""

    is_open: bool = False

    def charge(self, payment: Payment) -> None:
        """Charge a customer, if that can be done."""
        if payment.currency != "EUR":
            raise ValueError(f"no customer pays in {payment.currency}")
        if not self.is_open:
            raise ConnectionError("the bank does not answer")


bank = Bank()


@worker.handler("payments", recoverability=give_up_at_once, slow_down=None)
async def charge(payment: Payment) -> None:
    """Charge a customer."""
    bank.charge(payment)


async def heard(events: Events, kind: type[Event], count: int) -> None:
    """Wait for so many events of a kind."""
    while count:
        count -= isinstance(await events.get(), kind)


async def fail(broker: Broker, events: Events) -> None:
    """Send payments while the bank is closed."""
    payments = [{"customer": f"c{number}", "currency": "DM" if number % 5 == 0 else "EUR"} for number in range(20)]
    await broker.send_many("payments", [json.dumps(payment) for payment in payments])
    await heard(events, MessageFailed, len(payments))


async def recover(recovery: Recovery, events: Events) -> None:
    """Do what a person does: look, try it dry, send a few first, mend the rest."""
    for group in await recovery.groups():
        print(f"{group.count} x {group.title}")
    bank.is_open = True
    found = await recovery.dry_run("exception:ConnectionError")
    print(f"{found.free} of {found.matched} can be sent to {', '.join(found.by_destination)}")
    canary = Canary(count=3, patience=60)
    operation = await recovery.recover("exception:ConnectionError", canary=canary, rate=500, reason="the bank is back")
    await heard(events, MessageRecovered, operation.progress.total)

    euros = Transform(set_json={"/currency": "EUR"})
    for preview in await recovery.preview("exception:ValueError", euros, sample=1):
        print(*preview.changes, sep="\n")
    operation = await recovery.recover("exception:ValueError", transform=euros, reason="all prices are in EUR")
    await heard(events, MessageRecovered, operation.progress.total)

    for operation in await recovery.operations():
        figures = operation.progress
        print(
            f"operation {operation.number} is {operation.state.word}: {figures.succeeded} of {figures.total} succeeded"
        )


async def main() -> None:
    """Run a worker, recovery, and a person, in one program."""
    events: Events = asyncio.Queue()
    async with (
        connect("sqlite:///bank.db") as broker,
        open_recovery(broker, on_event=events.put_nowait) as recovery,
        asyncio.TaskGroup() as tasks,
    ):
        await broker.declare("payments")
        await broker.declare("error")
        tasks.create_task(worker.run(broker))
        tasks.create_task(recovery.run())
        await fail(broker, events)
        await recover(recovery, events)
        assert await recovery.count() == 0
        assert await recovery.count("status:resolved") == 20
        worker.stop()
        recovery.stop()


asyncio.run(main())
