# SPDX-License-Identifier: MIT
"""The port of the server's own store: what it must know beside what the facades know. Each verb is one transaction."""

from typing import NamedTuple, Protocol


class LastChanges(NamedTuple):
    """The numbers of the last changes, in one row: another number than before means that something has changed.

    Attributes:
        failures: of failed messages, and of operations' work on them.
        audit: of what people did.
        routes: of routes.
        pipelines: of tasks of pipelines.
    """

    failures: int
    audit: int
    routes: int
    pipelines: int


class AccessStore(Protocol):
    """What the server keeps for itself."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...

    async def changes(self) -> LastChanges:
        """Return the numbers of the last changes."""
        ...
