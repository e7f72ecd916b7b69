# SPDX-License-Identifier: MIT
"""A database that only answers slow questions: what a ledger reads through it has a time limit and holds up nothing."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from redrive.broker.port import Effect, EffectResult, Questions
from redrive.engines.sql.script import Script
from redrive.errors import UsageError

T = TypeVar("T")


class LimitedDatabase:
    """Another database, of which everything that is read is a slow question. It changes nothing.

    Args:
        questions: the other database; it opens and closes itself.
        seconds: how long an answer may take.
    """

    def __init__(self, questions: Questions, seconds: float) -> None:
        self._questions = questions
        self._seconds = seconds

    async def open(self) -> None:
        """Do nothing: the other database is open."""

    async def close(self) -> None:
        """Do nothing: the other database closes its connections."""

    async def look(self, script: Callable[[], Script[T]]) -> T:
        """Run a script that only reads, for a limited time."""
        return await self._questions.ask(script, self._seconds)

    async def run(self, script: Callable[[], Script[T]]) -> T:
        """Refuse."""
        _refuse()

    async def apply_inside(self, effects: Sequence[Effect], inside: Callable[[Any], Any]) -> list[EffectResult]:
        """Refuse."""
        _refuse()

    def scripted(self, script: Callable[[], Script[Any]]) -> Callable[[Any], Any]:
        """Refuse."""
        _refuse()


def _refuse() -> NoReturn:
    raise UsageError("what answers slow questions only reads; change things through the recovery itself")
