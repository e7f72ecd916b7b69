# SPDX-License-Identifier: MIT
"""An async client that holds its retries: one breaker and one budget, a tighter deadline for one operation."""

import asyncio

from redrive.retry import CircuitBreaker, Exponential, RetryBudget, current_attempt, retry


class Warehouse:
    """Talks to a warehouse that loses every other connection."""

    def __init__(self) -> None:
        self._calls = retry(
            on=ConnectionError,
            policy=Exponential(min=0.01, max=0.1, max_attempts=4),
            deadline=5,
            breaker=CircuitBreaker("warehouse", failures=10, open_for=1),
            budget=RetryBudget(),
        )
        self._sent = 0

    async def reserve(self, item: str) -> str:
        """Reserve an item."""
        return await self._calls.using(operation="reserve").call_async(self._send, f"reserve {item}")

    async def count(self, item: str) -> str:
        """Count an item; the caller wants a quick answer or none."""
        return await self._calls.using(operation="count", deadline=1, max_attempts=2).call_async(
            self._send, f"count {item}"
        )

    async def _send(self, request: str) -> str:
        self._sent += 1
        if self._sent % 2:
            raise ConnectionError("connection lost")
        attempt = current_attempt()
        return f"{request}: done at attempt {attempt.number} of {attempt.operation}"


async def main() -> None:
    """Use the client."""
    warehouse = Warehouse()
    print(await warehouse.reserve("bolts"))
    print(await warehouse.count("nuts"))


asyncio.run(main())
