# SPDX-License-Identifier: MIT
"""The filter that writes a hash into a header. Pure: no I/O, no clock, no randomness."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal
from zlib import crc32

from redrive.broker import Message, headers
from redrive.errors import InvalidSetting
from redrive.routes.event_values import EventValues, PathSetting, plain_bytes
from redrive.routes.parts import ChoiceSetting, EventFilter, LegFacts, TextSetting, setting

_ALGORITHMS: dict[str, Callable[[bytes], str]] = {
    "sha256": lambda data: hashlib.sha256(data).hexdigest(),
    "md5": lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest(),
    "crc32": lambda data: f"{crc32(data):08x}",
}


@dataclass(frozen=True, slots=True)
class HashFilter(EventFilter):
    """Writes the hash of a value, in hexadecimal digits, into a header.

    A text is hashed as UTF-8, every other value as JSON with its keys in order, so that equal values have equal hashes.
    If nothing is there, that is a permanent error. Only sha256 withstands people who look for a second value with the
    same hash.
    """

    kind: ClassVar[str] = "hash"

    header: str = setting(TextSetting("must be the name of a header"), "the header that gets the hash")
    path: str | None = setting(PathSetting(), "a JMESPath to what is hashed; without it, the whole body", None)
    algorithm: Literal["sha256", "md5", "crc32"] = setting(
        ChoiceSetting(tuple(_ALGORITHMS)), "sha256, md5 or crc32", "sha256"
    )

    def check(self) -> None:
        """See that the header is not one of Redrive's own."""
        if self.header.startswith(headers.OWN_HEADERS):
            allowed = f"must be another name: those with {headers.OWN_HEADERS!r} are Redrive's own"
            raise InvalidSetting("header", self.header, allowed)

    def apply(self, message: Message, leg: LegFacts) -> Sequence[Message]:
        """Return the event with the header."""
        data = message.body if self.path is None else plain_bytes(EventValues(message).required(self.path))
        return (replace(message, headers={**message.headers, self.header: _ALGORITHMS[self.algorithm](data)}),)
