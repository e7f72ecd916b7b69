# SPDX-License-Identifier: MIT
"""What an engine can do with messages that are asked for by number, instead of in turn. Pure: no I/O, no clock."""

from collections.abc import Sequence
from typing import Protocol

from redrive.broker.message import Received


class Deferral(Protocol):
    """Messages that are set aside with ``Defer``, and received by their sequence numbers."""

    async def lock_deferred(self, queue: str, sequences: Sequence[int]) -> list[Received]:
        """Lock deferred messages by their sequence numbers: all of them or, with ``MessageNotFound``, none."""
        ...


class Choosing(Protocol):
    """Messages that are received by their sequence numbers, out of turn: how one of many dead letters is chosen."""

    async def lock_chosen(self, queue: str, sequences: Sequence[int]) -> list[Received]:
        """Lock messages that are ready, by their sequence numbers: all or, with ``MessageNotFound``, none."""
        ...
