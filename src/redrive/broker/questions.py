# SPDX-License-Identifier: MIT
"""Slow questions: what has to read many rows. Pure: no I/O, no clock; those who implement it have them."""

from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Questions(Protocol):
    """A database that answers slow questions on connections of their own, so that nothing else waits for them."""

    async def ask(self, script: Callable[[], Generator[Any, Any, T]], seconds: float) -> T:
        """Run a script that only reads, for so long at most. If its caller is cancelled, it ends at once.

        Raises:
            QuestionTooSlow: it was not finished by then.
        """
        ...
