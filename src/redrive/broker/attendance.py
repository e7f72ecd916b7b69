# SPDX-License-Identifier: MIT
"""What a worker says about itself, every few seconds. Pure: no I/O, no clock."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """A worker, as it is now.

    Attributes:
        session: one run of it, unlike any other.
        name: its name.
        host: the machine's name.
        pid: the process.
        version: of Redrive.
        queues: the queues that it has handlers for.
        concurrency: how many messages it handles at a time, all handlers together.
        in_flight: how many it is handling.
        handled: how many it has handled so far, whatever became of them.
        p95_s: within how many seconds 95 of 100 messages were handled lately; None if none has been.
    """

    session: str
    name: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    concurrency: int
    in_flight: int
    handled: int
    p95_s: float | None


class Attendance(Protocol):
    """A store that knows which workers there are, for people to see."""

    async def worker_present(self, report: WorkerReport, seconds: float) -> None:
        """Note what a worker says about itself; it is forgotten if it says nothing more for so long."""
        ...

    async def worker_absent(self, session: str) -> None:
        """Note that a worker has ended."""
        ...
