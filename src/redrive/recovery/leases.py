# SPDX-License-Identifier: MIT
"""The leases of one process: while it lives, no other process works on the same thing."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from redrive.clock import pause
from redrive.errors import RedriveError
from redrive.recovery.environment import Tools
from redrive.recovery.events import RecoveryFault
from redrive.recovery.records import Lease


class Leases:
    """The leases of one process.

    Args:
        tools: the ledger, and where faults are reported.
        session: the name of this process.
        seconds: how long a lease lasts; it is renewed three times in that.
    """

    def __init__(self, tools: Tools, session: str, seconds: float) -> None:
        self._clock = tools.broker.clock
        self._ledger = tools.ledger
        self._report = tools.report
        self._session = session
        self._seconds = seconds
        self._busy: set[str] = set()

    @asynccontextmanager
    async def held(self, name: str, due: list[float] | None = None) -> AsyncGenerator[Lease | None]:
        """Hold a lease during a ``with`` block; None if this or another process holds it already.

        Args:
            name: what it is for.
            due: gets the seconds after which the lease of another process ends, if it dies.
        """
        if name in self._busy:
            yield None
            return
        self._busy.add(name)
        beating: asyncio.Task[None] | None = None
        lease: Lease | None = None
        try:
            lease = await self._ledger.hold(name, self._session, self._seconds)
            if lease is not None:
                beating = asyncio.create_task(self._beat(lease))
            elif due is not None:
                due.append(self._seconds)
            yield lease
        finally:
            self._busy.discard(name)
            if beating is not None and lease is not None:
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)
                with suppress(RedriveError):  # it ends by itself
                    await self._ledger.release(lease)

    async def _beat(self, lease: Lease) -> None:
        """Renew a lease for as long as this process lives."""
        while True:
            await pause(self._clock, self._seconds / 3)
            try:
                await self._ledger.renew(lease, self._seconds)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next may succeed before the lease ends
                self._report(RecoveryFault.of(f"renewing {lease.name}", error))
