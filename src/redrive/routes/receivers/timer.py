# SPDX-License-Identifier: MIT
"""A receiver that makes an event at regular times.

Ticks are counted from 1970, so every process counts the same ticks at the same times. The id of an event names its
tick, so of several processes that share a store the first counts. After a pause, only the last tick is made up for.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from redrive.clock import utc
from redrive.duration import LONGEST
from redrive.errors import MessageError, Unavailable
from redrive.routes.environment import PartEnvironment
from redrive.routes.parts import DurationSetting, EventReceiver, Intake, TextSetting, setting
from redrive.routes.receivers.body_setting import EventBodySetting, stated_event
from redrive.routes.receivers.receiver_events import EventGivenUp
from redrive.routes.receivers.stop_request import StopRequest, run_until_cancelled

_AGAIN_S = 1.0
"""How long to wait before a tick is offered again that could not be taken."""


@dataclass(frozen=True, slots=True)
class TimerReceiver(EventReceiver):
    """Makes an event at regular times, all day at the same ones: with ``every=3_600`` on the hour, in UTC."""

    kind: ClassVar[str] = "timer"
    can_hold: ClassVar[bool] = False

    every: float = setting(DurationSetting(), "the time from one event to the next")
    body: str = setting(EventBodySetting(), "the body of every event: a text, or JSON values", "{}")
    name: str | None = setting(
        TextSetting(), "tells timers with the same interval apart; None: the interval is its name", None
    )

    @property
    def address(self) -> str:
        """Its name."""
        return self.name or f"{self.every:g}s"

    @property
    def repeats_within(self) -> float:
        """Two ticks: a process that is started late makes up for the current one."""
        return max(600.0, min(2 * self.every, LONGEST))

    def open(self, environment: PartEnvironment) -> "OpenTimer":
        """Return the timer at work."""
        return OpenTimer(self, environment)


class OpenTimer:
    """A timer at work."""

    def __init__(self, settings: TimerReceiver, environment: PartEnvironment) -> None:
        self._settings = settings
        self._environment = environment
        self._clock = environment.clock
        self._last = -1

    async def run(self, intake: Intake) -> None:
        """Make events until cancelled; the first is that of the tick that is current."""
        stopping = StopRequest(self._clock)
        await run_until_cancelled(self._tick_on(intake, stopping), stopping.request)

    async def _tick_on(self, intake: Intake, stopping: StopRequest) -> None:
        every = self._settings.every
        while not stopping.is_requested:
            tick = math.floor(self._clock.time() / every)
            if tick > self._last and not await self._fire(intake, tick):
                await stopping.pause(min(_AGAIN_S, self._until(tick + 1)))
            else:  # if the clock was set back, no tick comes twice
                await stopping.pause(self._until(max(tick, self._last) + 1))

    def _until(self, tick: int) -> float:
        """Return the seconds until a tick; not 0, since the time of a tick may be rounded to just before it."""
        return max(0.001, tick * self._settings.every - self._clock.time())

    async def _fire(self, intake: Intake, tick: int) -> bool:
        """Have the event of a tick taken; False if it should be offered again."""
        at = utc(tick * self._settings.every).isoformat()
        message = stated_event(self._settings.body, f"timer:{self._settings.address}:{tick}", {"scheduled_at": at})
        try:
            await intake.accept(message)
        except Unavailable:
            return False
        except MessageError as error:
            place = self._environment
            place.report(EventGivenUp(place.application, place.name, message.id or "", str(error)))
        self._last = tick
        return True
