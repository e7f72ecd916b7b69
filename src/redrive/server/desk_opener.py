# SPDX-License-Identifier: MIT
"""Opening the desk of a process; while the store is away, it is asked again each second."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Final

from redrive import duration
from redrive.access import Redaction
from redrive.clock import Clock
from redrive.errors import EngineUnavailable, StorageDamaged, StorageReadOnly
from redrive.printable import one_line
from redrive.recovery import ServiceSettings, TransformSettings
from redrive.server.desk import Desk, open_desk
from redrive.server.settings import ServerSettings
from redrive.telemetry import Event
from redrive.wiring import connect, open_recovery

_logger = logging.getLogger("redrive.server")

_TRY_EVERY_S: Final = 1.0
_UPKEEP_EVERY_S: Final = 5.0


class DeskOpener:
    """Opens the desk of a process of the server.

    Args:
        settings: where the store is, and what is opened.
        clock: where time comes from.
        on_event: gets the telemetry events of recovery.
        note_away: called when the store does not answer, with what it said.
        does_upkeep: whether expired messages and idle queues are looked for in this process.
    """

    def __init__(
        self,
        settings: ServerSettings,
        clock: Clock,
        on_event: Callable[[Event], object],
        note_away: Callable[[str], object],
        *,
        does_upkeep: bool,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._on_event = on_event
        self._note_away = note_away
        self._upkeep_every = _UPKEEP_EVERY_S if does_upkeep else duration.LONGEST

    async def open(self, stack: AsyncExitStack, stopping: asyncio.Event) -> Desk | None:
        """Return the open desk; None if the process was stopped while the store was away.

        Args:
            stack: closes the desk.
            stopping: is set when the process is stopped.
        """
        while not stopping.is_set():
            opening = AsyncExitStack()
            try:
                desk = await self._open(opening)
            except (StorageDamaged, StorageReadOnly):
                raise  # to wait would not help
            except EngineUnavailable as error:
                await opening.aclose()
                self._note_away(one_line(error, 300))
                _logger.warning("the store does not answer, and is asked again each second: %s", one_line(error, 300))
                with suppress(TimeoutError):
                    async with self._clock.timeout(_TRY_EVERY_S):
                        await stopping.wait()
            except BaseException:
                await opening.aclose()
                raise
            else:
                await stack.enter_async_context(opening)
                return desk
        return None

    async def _open(self, stack: AsyncExitStack) -> Desk:
        settings = self._settings
        broker = await stack.enter_async_context(
            connect(settings.database, clock=self._clock, upkeep_every=self._upkeep_every)
        )
        async with open_recovery(broker, sources=()) as known:
            sources = dict.fromkeys((*settings.sources, *await known.sources()))
        recovery = open_recovery(
            broker,
            sources=tuple(sources) if settings.ingest else (),
            settings=ServiceSettings(transforms=TransformSettings(allow=settings.allow)),
            on_event=self._on_event,
        )
        hidden, limit = Redaction(settings.hide), settings.question_limit
        return await stack.enter_async_context(
            open_desk(broker, recovery, hidden, settings.private_networks, question_limit=limit)
        )
