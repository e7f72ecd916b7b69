# SPDX-License-Identifier: MIT
"""The port for the history's store, in the words of the domain. Each verb is one transaction.

Pure: no I/O, no clock; those who implement it have them.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from redrive.history.buckets import Retention
from redrive.history.operation_samples import OperationSample
from redrive.history.workers import WorkerInfo


class Line(NamedTuple):
    """What is asked of numbers over time.

    Attributes:
        topic: of what kind of thing.
        metric: what was counted or noted.
        start: since when.
        names: of which; None: of all that have any.
        step: how many seconds a step is.
    """

    topic: str
    metric: str
    start: int
    names: Sequence[str] | None
    step: int


class HistoryLedger(Protocol):
    """Where the history is kept."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...

    async def now(self) -> float:
        """Return the time by which numbers are stored, in seconds since 1970."""
        ...

    async def numbers(self, topic: str, metric: str, start: int, name: str | None) -> list[tuple[int, int]]:
        """Return when each stored span began since a time, and its number; of all names together if none is given."""
        ...

    async def lines(self, asked: Sequence[Line]) -> list[list[tuple[str, int, int]]]:
        """Return the same for each name, of several lines; what began within a step is one number."""
        ...

    async def sums(self, topic: str, metric: str, start: int, names: Sequence[str]) -> dict[str, int]:
        """Return what was counted of each name since a time; those of which nothing was are left out."""
        ...

    async def sums_of_all(self, asked: Sequence[tuple[str, str]], start: int) -> dict[tuple[str, str], int]:
        """Return what was counted of all names together since a time, by topic and metric."""
        ...

    async def totals(self, topic: str, start: int, end: int) -> list[tuple[str, str, int]]:
        """Return what was counted of everything of a topic between two times: name, metric and number."""
        ...

    async def last_counted(self, topic: str, metric: str, start: int) -> dict[str, int]:
        """Return, by name, when the last span began in which something was counted, if that was since a time."""
        ...

    async def workers(self) -> list[WorkerInfo]:
        """Return the workers that are there, the oldest first."""
        ...

    async def samples(self, number: int) -> list[OperationSample]:
        """Return the samples of an operation, the oldest first."""
        ...

    async def retention(self) -> Retention:
        """Return how long the history is kept."""
        ...

    async def moment(self) -> tuple[float, Retention]:
        """Return what every question begins with: the time, and how long the history is kept."""
        ...

    async def keep(self, retention: Retention) -> None:
        """Say how long the history is kept from now on."""
        ...
