# SPDX-License-Identifier: MIT
"""The port of webhooks and of what they were called for. Each verb is one transaction, or a part of one."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from redrive.notifications.webhook import WebhookInfo


class NoticeTaken(Exception):
    """Another process has sent this notice; the transaction is undone."""


class NotificationStore(Protocol):
    """Webhooks, and what they were called for."""

    async def add_webhook(
        self, name: str, url: str, events: Sequence[str], secret: str, actor: str, *, replace: bool = False
    ) -> WebhookInfo | None:
        """Store a webhook; None: there is one of this name, and ``replace`` does not say that it is changed."""
        ...

    async def webhooks(self) -> list[WebhookInfo]:
        """Return all webhooks, in order of their names."""
        ...

    async def webhook_and_secret(self, name: str) -> tuple[WebhookInfo, str] | None:
        """Return a webhook and what signs its requests; None: there is none."""
        ...

    async def remove_webhook(self, name: str) -> WebhookInfo | None:
        """Remove a webhook; None: there is none."""
        ...

    async def still_so(self, names: Sequence[str], quiet_s: float) -> set[str]:
        """Note that some things are still so; return those that were noticed before.

        Args:
            names: what is so now.
            quiet_s: what was not so for that long is forgotten; if it is so again, that is new.
        """
        ...

    def notice(self, name: str, event_id: str) -> Callable[[Any], object]:
        """Return a part of the transaction that sends a notice: it notes that it is sent.

        Raises:
            NoticeTaken: in that transaction, if another process has noted it.
        """
        ...
