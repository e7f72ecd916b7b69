# SPDX-License-Identifier: MIT
"""A receiver that makes stated events once: for tests of routes."""

from dataclasses import dataclass
from typing import ClassVar

from redrive.errors import InvalidSetting
from redrive.routes.environment import PartEnvironment
from redrive.routes.parts import EventReceiver, Intake, ListSetting, TextSetting, WholeSetting, setting
from redrive.routes.receivers.acceptance import Acceptance
from redrive.routes.receivers.body_setting import EventBodySetting, stated_event
from redrive.routes.receivers.stop_request import StopRequest, run_until_cancelled


@dataclass(frozen=True, slots=True)
class DebugReceiver(EventReceiver):
    """Makes stated events, or a number of them, once each time it runs; then it waits. For tests of routes."""

    kind: ClassVar[str] = "debug"
    can_hold: ClassVar[bool] = False

    events: tuple[str, ...] = setting(
        ListSetting(EventBodySetting()), "the bodies of the events: texts, or JSON values", ()
    )
    count: int | None = setting(
        WholeSetting(1, 1_000_000),
        'how many events there are, if their bodies do not matter: {"number":1} and on',
        None,
    )
    name: str = setting(TextSetting(), "tells receivers of this kind apart", "debug")

    @property
    def address(self) -> str:
        """Its name."""
        return self.name

    def check(self) -> None:
        """See that it has events."""
        EventReceiver.check(self)
        if bool(self.events) == (self.count is not None):
            raise InvalidSetting("events", list(self.events), "must be a list of bodies; or else give a count")

    @property
    def total(self) -> int:
        """How many events there are."""
        return len(self.events) if self.count is None else self.count

    def body(self, number: int) -> str:
        """Return the body of an event, counted from 1."""
        return self.events[number - 1] if self.count is None else f'{{"number":{number}}}'

    def open(self, environment: PartEnvironment) -> "OpenDebugReceiver":
        """Return the receiver at work."""
        return OpenDebugReceiver(self, environment)


class OpenDebugReceiver:
    """A debug receiver at work."""

    def __init__(self, settings: DebugReceiver, environment: PartEnvironment) -> None:
        self._settings = settings
        self._environment = environment

    async def run(self, intake: Intake) -> None:
        """Make all events in order, and wait until cancelled."""
        stopping = StopRequest(self._environment.clock)
        acceptance = Acceptance(intake, self._environment, stopping, self._settings.max_replays)
        await run_until_cancelled(self._make(acceptance, stopping), stopping.request)

    async def _make(self, acceptance: Acceptance, stopping: StopRequest) -> None:
        for number in range(1, self._settings.total + 1):
            message = stated_event(self._settings.body(number), f"debug:{self._settings.name}:{number}")
            if await acceptance.accept(message) == "stopped":
                return
        await stopping.requested()
