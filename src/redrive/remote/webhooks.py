# SPDX-License-Identifier: MIT
"""Webhooks behind a server, as a command uses them: the methods of ``Notifications``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from redrive.remote.connection import ServerConnection, quoted
from redrive.remote.records import record, records

if TYPE_CHECKING:  # it needs all layers, and other commands do not load them
    from redrive.notifications import NewWebhook, WebhookInfo, WebhookTest


class RemoteWebhooks:
    """The webhooks of a server.

    Args:
        server: the server.
    """

    def __init__(self, server: ServerConnection) -> None:
        self._server = server

    async def webhooks(self) -> "list[WebhookInfo]":
        """Return all webhooks."""
        from redrive.notifications import WebhookInfo

        return records(WebhookInfo, await self._server.get("/webhooks"))

    async def add(
        self, name: str, url: str, events: Sequence[str], *, secret: str | None = None, actor: str = ""
    ) -> "NewWebhook":
        """Add a webhook."""
        from redrive.notifications import NewWebhook, WebhookInfo

        asked = {"name": name, "url": url, "events": list(events), "secret": secret}
        made = await self._server.send("POST", "/webhooks", asked)
        return NewWebhook(record(WebhookInfo, made), made["secret"])

    async def remove(self, name: str) -> "WebhookInfo":
        """Remove a webhook."""
        from redrive.notifications import WebhookInfo

        return record(WebhookInfo, await self._server.send("DELETE", f"/webhooks/{quoted(name)}"))

    async def test(self, name: str) -> "WebhookTest":
        """Let the server call a webhook once."""
        from redrive.notifications import WebhookTest

        return record(WebhookTest, await self._server.send("POST", f"/webhooks/{quoted(name)}/test"))
