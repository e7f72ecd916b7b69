# SPDX-License-Identifier: MIT
"""Whether this process lives, and whether it can serve: what an orchestrator asks, without a token.

``/live`` answers for as long as the process works. ``/ready`` says whether the store answers and every part that is
switched on runs; if not, what is missing and since when.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from redrive.broker.views import View
from redrive.clock import Clock, utc
from redrive.errors import RedriveError
from redrive.printable import one_line

_ASK_EVERY_S: Final = 1.0
_PATIENCE_S: Final = 2.0


class Health:
    """What is known about this process.

    Args:
        clock: where time comes from.

    Attributes:
        ask: asks the store for anything, and raises if it does not answer; None: it was never reached.
        parts: what runs in this process, and since when it does not (None: it runs).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ask: Callable[[], Awaitable[object]] | None = None
        self.parts: dict[str, float | None] = {}
        self._started = clock.time()
        self._away_since: float | None = clock.time()
        self._problem = "the store was not reached yet"
        self._asked_at = -_ASK_EVERY_S

    async def readiness(self) -> View:
        """Return whether it can serve; the store is asked once a second at most, however many ask."""
        if self.ask is not None and self._clock.monotonic() - self._asked_at >= _ASK_EVERY_S:
            await self._look(self.ask)
        missing: list[View] = []
        if self._away_since is not None:
            missing.append(_missing("store", self._problem, self._away_since))
        missing += [_missing(name, "it does not run", since) for name, since in self.parts.items() if since is not None]
        return {"status": "not-ready" if missing else "ready", "missing": missing}

    async def _look(self, ask: Callable[[], Awaitable[object]]) -> None:
        self._asked_at = self._clock.monotonic()
        try:
            async with self._clock.timeout(_PATIENCE_S):
                await ask()
        except TimeoutError:
            self.note_away(f"the store has not answered for {_PATIENCE_S:g} s")
        except RedriveError as error:
            self.note_away(one_line(error, 300))
        else:
            self._away_since = None

    def note_away(self, problem: str) -> None:
        """Note that the store does not answer; since when, is kept."""
        self._problem = problem
        if self._away_since is None:
            self._away_since = self._clock.time()

    def note_part(self, name: str, *, runs: bool) -> None:
        """Note that a part runs, or does not any more."""
        self.parts[name] = None if runs else self._clock.time()


def _missing(what: str, problem: str, since: float) -> View:
    return {"what": what, "problem": problem, "since": utc(since).isoformat()}


router = APIRouter(include_in_schema=False)


@router.get("/live")
async def live() -> View:
    """Say that the process works."""
    return {"status": "live"}


@router.get("/ready")
async def ready(request: Request) -> JSONResponse:
    """Say whether it can serve."""
    found = await request.app.state.health.readiness()
    return JSONResponse(found, 200 if found["status"] == "ready" else 503)
