# SPDX-License-Identifier: MIT
"""A store in which every layer has something to show: what the pages are looked at with."""

import json

from redrive.access import rights_of
from redrive.broker import Message, tallies
from redrive.broker.port import find_ability
from redrive.routes import from_queue, match, route, to_queue
from redrive.worker import Recoverability, Worker
from tests.server.api.pipeline_functions import make_pipeline

AT_ONCE = Recoverability(immediate=1, delayed=None, error_queue="error")
ONCE = Recoverability(immediate=0, delayed=None, error_queue="error")
PASSWORD = "a long password"  # noqa: S105 - of nothing but a test


class ProviderTimeout(Exception):
    """The payment provider does not answer."""


class CardDeclined(Exception):
    """The payment provider says no."""


def order(number):
    """Return a message about an order."""
    body = {"order": number, "customer": "Nordlicht GmbH", "total": {"amount": 184.9, "currency": "EUR"}}
    return Message(
        json.dumps(body).encode(),
        content_type="application/json",
        subject="order.placed",
        headers={"x-tenant": "nordlicht"},
    )


def payments(*, works=False, **more):
    """Return a worker that charges orders: every fifth card is declined, and the provider answers if it works."""
    worker = Worker()

    @worker.handler("payments", recoverability=AT_ONCE, slow_down=None, **more)
    async def charge(order: dict) -> None:
        if order["order"] % 5 == 0:
            raise CardDeclined("do_not_honor")
        if not works:
            raise ProviderTimeout("POST https://api.provider.example/charges timed out after 5 s")

    return worker


async def fill(desk, orders=40):
    """Fill a store."""
    await fail(desk, orders)
    await recover(desk)
    await make_routes(desk)
    await make_pipeline(desk)
    await set_up(desk)
    await desk.history.flush()


async def fail(desk, orders=40):
    """Let orders fail, and read them into the store."""
    for queue in ("payments", "error", "invoices"):
        await desk.broker.declare(queue)
    await desk.broker.send_many("payments", [order(number) for number in range(orders)])
    await desk.broker.send_many("invoices", [f"invoice {number}" for number in range(7)])
    await payments().run(desk.broker, until_idle=True)
    await desk.recovery.ingest()


async def fail_in_many_ways(desk, groups, each):
    """Let messages fail in some ten queues, each group with an exception of its own, and read them into the store."""
    made = [type(f"Trouble{number}", (Exception,), {}) for number in range(groups)]
    worker, queues = Worker(), [f"many-{number}" for number in range(10)]
    for queue in (*queues, "error"):
        await desk.broker.declare(queue)

    async def handle(order: dict) -> None:
        raise made[order["order"]](f"{order['customer']} was not served")

    for queue in queues:
        worker.handler(queue, recoverability=ONCE, slow_down=None)(handle)
    for number in range(groups):
        await desk.broker.send_many(queues[number % len(queues)], [order(number) for _ in range(each)])
    await worker.run(desk.broker, until_idle=True)
    await desk.recovery.ingest()


async def recover(desk):
    """Recover some, so that there is an operation that has ended, one that waits, and a note."""
    await desk.recovery.recover("exception:ProviderTimeout", limit=10, actor="ana", reason="the provider is back")
    await desk.recovery.step()
    await payments(works=True).run(desk.broker, until_idle=True)
    await desk.recovery.ingest()
    await desk.recovery.step()
    await desk.recovery.archive("exception:CardDeclined", limit=2, actor="mikael")
    await desk.recovery.step()
    await desk.recovery.recover("exception:CardDeclined", canary=2, actor="mikael", reason="try a few")
    await desk.recovery.step()
    group = (await desk.recovery.groups(largest_first=True))[0]
    await desk.recovery.note(f"group:{group.id}", "The provider has been degraded since 08:40.", actor="ana")


async def make_routes(desk):
    """Make three routes: one with events that wait and some that are dead, one that is paused, one that runs."""
    for queue in ("orders", "billing", "warehouse"):
        await desk.broker.declare(queue)
    source = from_queue("orders")
    await desk.routes.add(route("big-orders", source=source) | match("body.total.amount > 100") >> to_queue("billing"))
    await desk.routes.add(route("all-orders", source=source) >> to_queue("warehouse"))
    await desk.routes.pause("all-orders", reason="the warehouse counts its stock")
    queue = (await desk.routes.show("big-orders")).queue
    await desk.broker.send_many(queue, [order(number) for number in range(5)])
    for delivery in await desk.broker.receive(queue, max_messages=2):
        await delivery.dead_letter("refused", "the partner answered 422: no customer of that name")
    counted = {tallies.SENT: 410, tallies.FILTERED: 96, tallies.FAILED: 31, tallies.DEAD: 2}
    store = find_ability(desk.broker.engine, tallies.Tallying)
    store.tally({(tallies.ROUTE, "big-orders", metric): number for metric, number in counted.items()})


async def set_up(desk):
    """Add people, tokens, rules, a webhook and a redirect."""
    await desk.access.add_user("ana", PASSWORD, rights_of("admin"))
    await desk.access.add_user("vera", PASSWORD, rights_of("viewer"))
    await desk.access.create_token("ci", rights_of("operator"), actor="ana")
    await desk.access.redactions.add("pointer", "/card/number", actor="ana")
    await desk.notifications.add("chat", "https://chat.example.com/hooks/1", ["new-group", "route-parked"], actor="ana")
    await desk.recovery.redirect("invoices-old", "invoices", actor="ana")
