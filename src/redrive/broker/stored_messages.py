# SPDX-License-Identifier: MIT
"""Messages as a database has stored them, for those who look at thousands. Pure: no I/O, no clock.

To decode the properties of a message takes longer than to read it. Who knows what to look for in many messages that are
nearly equal may look at the text instead, and decode the few that are not.
"""

from typing import NamedTuple, Protocol

from redrive.broker.message import Received


class StoredMessage(NamedTuple):
    """A message that is not decoded.

    Attributes:
        sequence: its number in its queue.
        enqueued_at: when it was sent, in seconds since 1970.
        expires: when it expires; None: it does not.
        id: its id.
        properties: all else that its sender gave it, as JSON without spaces, its headers last; None: nothing.
        dead_letter: why it is dead, as JSON; None: it is not.
        body: its body.
        state: the number of its state.
        due: when its lock ends, or when it becomes available.
        delivery_count: how often it was locked.
    """

    sequence: int
    enqueued_at: float
    expires: float | None
    id: str
    properties: str | None
    dead_letter: str | None
    body: bytes
    state: int
    due: float | None
    delivery_count: int


class StoredMessages(Protocol):
    """A store that shows messages as it has stored them."""

    async def peek_stored(
        self, queue: str, limit: int, *, start: int = 0, max_bytes: int | None = None
    ) -> list[StoredMessage]:
        """Look at messages that are ready, in order of their numbers, as ``Browsing.peek`` does."""
        ...

    def decoded(self, message: StoredMessage, queue: str) -> Received:
        """Return a message that was looked at as ``Browsing.peek`` would.

        Raises:
            StorageDamaged: it cannot be decoded.
        """
        ...
