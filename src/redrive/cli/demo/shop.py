# SPDX-License-Identifier: MIT
"""The shop: orders come in over HTTP, three routes pass them on, workers charge, check and invoice them.

Every layer has something to do. A call to the card network is retried, a message whose call still fails is redelivered,
the partner's webhook is flaky and then down, invoices that the tax office refuses are sent again, and what stays failed
is for a person to recover.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from redrive.broker import Broker
from redrive.cli.demo.outside import NoAddress, Outside
from redrive.clock import pause
from redrive.pipeline import CallTransport, Every, FileTransport, Item, Pipeline, Report, Shipment, Submission
from redrive.pipeline import Output as PipelineOutput
from redrive.retry import Exponential, retry
from redrive.routes import Route, http, match, route, to_queue, webhook
from redrive.worker import Context, Recoverability, Worker

ORDERS_PATH: Final = "/orders"
QUEUES: Final = ("payments", "checks", "error")
FAILING: Final = ("pipelines/invoices/send/tax-office", "routes/default/http/orders/pack")
"""What else has dead letters: they are failures, too."""

FOLLOWED: Final = (
    "payments",
    "checks",
    *(f"routes/default/http/orders/{name}" for name in ("charge", "check-large", "pack")),
)
"""The queues in which the journeys of all messages are noted, and not only of those that had trouble."""

_CHECK_TAKES_S: Final = 1.5
_QUICK: Final = Exponential(min=0.1, max=0.4, max_attempts=3)
_LIVE: Final = Recoverability(immediate=1, delayed=[3.0], error_queue="error")
AT_ONCE: Final = Recoverability(immediate=0, delayed=None, error_queue="error")
"""Fail at the first attempt: for the morning, which is over in seconds."""


def routes(partner_url: str) -> list[Route]:
    """Return the shop's routes: every order is charged and packed, and a large one is checked by a person, too."""
    orders = http(ORDERS_PATH)
    return [
        route("charge", source=orders) >> to_queue("payments"),
        route("check-large", source=orders) | match("body.total > 900") >> to_queue("checks"),
        route("pack", source=orders, max_attempts=4, max_delay=5.0, probe_after=5.0, breaker_failures=5)
        >> webhook(partner_url),
    ]


def invoices(folder: str, outside: Outside) -> Pipeline:
    """Return the pipeline of invoices: the accountant gets a file every 20 seconds, which is the shop's night."""
    pipe = Pipeline("invoices")

    @pipe.receive
    def invoice(submission: Submission) -> list[bytes]:  # pyright: ignore[reportUnusedFunction]  # the pipeline has it
        return [submission.body]

    @pipe.process
    def book(report: Report) -> list[PipelineOutput]:  # pyright: ignore[reportUnusedFunction]  # the pipeline has it
        return [PipelineOutput(name, report.items) for name in ("accountant", "tax-office")]

    def lines(items: Sequence[Item]) -> str:
        return "\n".join(item.body.decode() for item in items)

    def report_tax(shipment: Shipment) -> None:
        if b"Dee" in shipment.body and not outside.is_steady:
            raise ConnectionError("the tax office has no record of the customer Dee")

    pipe.destination("accountant", FileTransport(folder), timing=Every(20), merge=lines)
    pipe.destination("tax-office", CallTransport(report_tax, deduplicates=True), retry=[5, 10])
    return pipe


def payments(
    outside: Outside,
    submit: Callable[[str, str], Awaitable[object]] | None,
    recoverability: Recoverability = _LIVE,
    concurrency: int = 20,
) -> Worker:
    """Return the worker that charges orders.

    Args:
        outside: the payment provider and the card networks.
        submit: submits an invoice under a key; None: there are no invoices yet.
        recoverability: what happens when an order fails.
        concurrency: how many orders are charged at a time.
    """
    worker = Worker("payments")

    @retry(on=ConnectionError, policy=_QUICK, operation="charge a card")
    async def charge(order: dict[str, Any]) -> None:
        outside.charge(order)

    @worker.handler("payments", concurrency=concurrency, recoverability=recoverability, slow_down=None)
    async def pay(order: dict[str, Any], context: Context) -> None:  # pyright: ignore[reportUnusedFunction]
        if order["address"] is None:
            raise NoAddress(f"order {order['order']} has no address")
        outside.reserve()
        await charge(order)
        if submit is not None:
            await submit(json.dumps(order), context.message.id or "")

    return worker


def checks(broker: Broker) -> Worker:
    """Return the worker that checks large orders: one at a time, and slowly, so that they wait."""
    worker = Worker("checks")

    @worker.handler("checks", concurrency=1)
    async def check(_order: dict[str, Any]) -> None:  # pyright: ignore[reportUnusedFunction]  # the worker has it
        await pause(broker.clock, _CHECK_TAKES_S)

    return worker
