# SPDX-License-Identifier: MIT
"""The children of a split event, by their paths, and which of them were delivered. Pure: no I/O, no clock.

A path is empty for the event itself, ``2`` for the third child, and ``2.0`` for the first child of that.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from redrive.broker import Headers, Message
from redrive.broker.headers import ROUTE_DELIVERED

_PATH: Final = re.compile(r"(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8}))*")

_LONGEST_ID: Final = 500
"""A message's id has at most 1,024 characters, and the names of a route and its parts need some of them."""


@dataclass(frozen=True, slots=True)
class Child:
    """A part of an event that is delivered on its own; of an event that was not split, all of it.

    Attributes:
        message: what is delivered.
        path: which part it is.
    """

    message: Message
    path: str = ""

    def parts(self, messages: Iterable[Message]) -> list["Child"]:
        """Return what goes on instead of it. Several messages, or none, make children of their own."""
        listed = list(messages)
        if len(listed) == 1:
            return [Child(listed[0], self.path)]
        return [
            Child(each, f"{self.path}.{number}" if self.path else str(number)) for number, each in enumerate(listed)
        ]


def delivery_key(event_id: str, route: str, path: str) -> str:
    """Return what names a delivery: it is the same in every attempt, and short enough for the id of a message."""
    if len(event_id) > _LONGEST_ID:
        event_id = sha256(event_id.encode(errors="surrogatepass")).hexdigest()
    return ":".join((event_id, route, path) if path else (event_id, route))


def delivered_before(headers: Headers) -> frozenset[str]:
    """Return the paths of the children that were delivered in earlier attempts."""
    noted = headers.get(ROUTE_DELIVERED)
    paths = noted.split(",") if isinstance(noted, str) else ()
    return frozenset(path for path in paths if _PATH.fullmatch(path))


def delivered_header(delivered: Iterable[str]) -> dict[str, str | int | float | bool | None]:
    """Return the header that notes which children were delivered; none if no child was."""
    paths = sorted((path for path in delivered if path), key=lambda path: [int(part) for part in path.split(".")])
    return {ROUTE_DELIVERED: ",".join(paths)} if paths else {}
