# SPDX-License-Identifier: MIT
"""The filter that consumes duplicates; the ledger remembers what was seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar

from redrive.broker import Message
from redrive.errors import MessageError
from redrive.printable import one_line
from redrive.routes.event_values import EventValues, PathSetting, plain_bytes
from redrive.routes.outcomes import Rejected, SendFailure
from redrive.routes.parts import DurationSetting, LegFacts, OpenFilter, OutsideFilter, setting

if TYPE_CHECKING:
    from redrive.routes.environment import PartEnvironment
    from redrive.routes.ledger import RouteLedger


@dataclass(frozen=True, slots=True)
class DedupFilter(OutsideFilter):
    """Passes the first event with a key, and consumes those that follow within a window.

    A replay of the first event passes again, also in another process or after a restart. If the leg of the first event
    dies, its key is free for the next one. Parts of one event are no duplicates of each other. An event without a key
    is rejected. Each route has its own keys, and the ledger keeps hashes of them only.

    An event that its source delivers again with the same id is the same event, not a duplicate: it passes again.
    """

    kind: ClassVar[str] = "dedup"

    key: str | None = setting(
        PathSetting(), "a JMESPath to what duplicates have in common: body.order_id; without it, the whole body", None
    )
    window: float = setting(DurationSetting(), "how long a key is remembered, from the first event on", 3_600.0)

    def open(self, environment: "PartEnvironment") -> OpenFilter:
        """Return the filter at work."""
        return _OpenDedup(self, environment.ledger)

    def key_of(self, message: Message) -> str:
        """Return what the ledger knows the key of an event by.

        Raises:
            MessageError: the event has no key.
        """
        if self.key is None:
            return sha256(b"body\0" + message.body).hexdigest()
        value = EventValues(message).required(self.key)
        return sha256(self.key.encode() + b"\0" + plain_bytes(value)).hexdigest()  # two filters must not share keys


class _OpenDedup:
    """The keys of one filter in the ledger."""

    def __init__(self, settings: DedupFilter, ledger: "RouteLedger") -> None:
        self._settings = settings
        self._ledger = ledger

    async def apply(self, message: Message, leg: LegFacts) -> Sequence[Message] | SendFailure:
        try:
            key = self._settings.key_of(message)
        except MessageError as error:
            return Rejected(one_line(error, 500))
        is_first = await self._ledger.claim(_owner(leg), key, leg.event_id, self._settings.window)
        return (message,) if is_first else ()

    async def ended(self, message: Message, leg: LegFacts, *, is_delivered: bool) -> None:
        if is_delivered:
            return
        try:
            key = self._settings.key_of(message)
        except MessageError:  # it was rejected, and has claimed nothing
            return
        await self._ledger.release(_owner(leg), key, leg.event_id)

    async def close(self) -> None:
        return


def _owner(leg: LegFacts) -> str:
    return f"{leg.application}/{leg.route}"
