# SPDX-License-Identifier: MIT
"""What happened before the demo began: a morning in which the payment provider was away for three quarters of an hour.

It is played in a few seconds, on a clock in the program's hand, with the same broker, worker and recovery as the rest.
So the first page has a past: failures by the hour, groups, and an operation that is under way.
"""

from typing import Final

from redrive import connect, open_recovery
from redrive.broker import Broker
from redrive.cli.demo.orders import BAD_JSON, order
from redrive.cli.demo.outside import Outside
from redrive.cli.demo.shop import AT_ONCE, QUEUES, payments
from redrive.clock import system_clock
from redrive.testing import ManualClock

_STEP_S: Final = 300.0
_STEPS: Final = 36
_WAREHOUSE_DOWN: Final = range(6, 10)
_OUTAGE: Final = {20: 2, 21: 7, 22: 10, 23: 11, 24: 9, 25: 10, 26: 8, 27: 5, 28: 1}
"""The steps in which the provider was away, and how many orders came in each, to one another."""

MISSED: Final = 5_000
"""How many orders the provider's outage leaves behind."""

_PER_STEP: Final = 25
_AT_A_TIME: Final = 300
_RATE: Final = 4.0


async def play_morning(url: str, missed: int = MISSED) -> None:
    """Fill the shop's database with the morning.

    Args:
        url: the database.
        missed: how many orders the provider's outage leaves behind.
    """
    clock = ManualClock(system_clock.time() - _STEP_S * (_STEPS + 1))
    async with connect(url, clock=clock) as broker:
        for queue in QUEUES:
            await broker.declare(queue)
        outside = Outside(clock)
        async with open_recovery(broker) as recovery:
            first = 1
            for step in range(_STEPS):
                outside.is_provider_up = step not in _OUTAGE
                outside.is_warehouse_up = step not in _WAREHOUSE_DOWN
                # The card network fails in waves from now on; what the provider missed is to succeed all the same.
                card = "Visa" if step in _OUTAGE else None
                first += await _arrive(broker, first, _count(step, missed), card)
                await payments(outside, None, AT_ONCE, concurrency=_AT_A_TIME).run(broker, until_idle=True)
                await recovery.ingest()
                clock.advance(_STEP_S)
            why = "the warehouse answers again"
            await recovery.recover(
                "exception:shop.WarehouseDown", rate=_RATE, canary=5, actor="ann", reason=why
            )  # it begins with the server


def _count(step: int, missed: int) -> int:
    """Return how many orders arrive in a step: as many as the outage is to leave behind, in its steps."""
    share = _OUTAGE.get(step)
    return _PER_STEP if share is None else max(1, round(missed * share / sum(_OUTAGE.values())))


async def _arrive(broker: Broker, first: int, count: int, card: str | None) -> int:
    bodies = [order(number) | ({} if card is None else {"card": card}) for number in range(first, first + count)]
    await broker.send_many("payments", bodies)
    if first % 3 == 0:
        await broker.send("payments", BAD_JSON % first)
    return count
