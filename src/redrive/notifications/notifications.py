# SPDX-License-Identifier: MIT
"""Calls webhooks when something needs a person.

What is so now is looked at every few seconds, and compared with what was noticed before. A notice and the messages that
carry it are stored in one transaction, so that none is lost when a process dies, and none is made twice by several. The
messages are in a queue of Redrive's own; a worker sends them, again after delays, and what cannot be sent becomes a
dead letter there, to be seen and resubmitted like any other.
"""

import asyncio
import json
import logging
import secrets
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from redrive.attention import Attention
from redrive.background import KeepGoing
from redrive.broker import Broker, Message, Send
from redrive.clock import pause, utc
from redrive.errors import InvalidSetting, WebhookConflict, WebhookNotFound
from redrive.http import client as http_client
from redrive.http.public_address import AddressRefused, Network, Resolve, pinned_request, resolved
from redrive.http.signing import secret_of, signing_key
from redrive.notifications.notices import EVENTS, Notice, notices_of
from redrive.notifications.store import NoticeTaken, NotificationStore
from redrive.notifications.webhook import (
    TEST,
    NewWebhook,
    WebhookInfo,
    WebhookTest,
    body_of,
    check_webhook,
    encoded,
    headers_of,
)
from redrive.parts import any_variables, from_environment
from redrive.printable import one_line
from redrive.retry import Exponential, retry
from redrive.telemetry import Event
from redrive.worker import Recoverability, Worker

if TYPE_CHECKING:
    import httpx

_logger = logging.getLogger("redrive.notifications")

NOTIFICATIONS: Final = "redrive.notifications"
"""The queue of what webhooks are called with; its dead letters are what could not be sent."""

_LOOK_EVERY_S: Final = 10.0
_QUIET_S: Final = 1_800.0
_TIMEOUT_S: Final = 10.0
_LATER: Final = frozenset({408, 425, 429})


class CallFailed(Exception):
    """A webhook could not be called; later it may work."""


class CallRefused(Exception):
    """A webhook cannot be called, or has refused what it was called with."""


class Notifications:
    """Webhooks, and what they are called for. Made by ``redrive.wiring.open_notifications``.

    Args:
        broker: where the queue is; it must be open.
        store: the webhooks.
        attention: what needs a person.
        networks: private networks that webhooks may be in.
        on_event: gets every telemetry event of the worker.
        resolve: returns the addresses of a name.
    """

    def __init__(
        self,
        broker: Broker,
        store: NotificationStore,
        attention: Attention,
        networks: Sequence[Network] = (),
        *,
        on_event: Callable[[Event], object] | None = None,
        resolve: Resolve = resolved,
    ) -> None:
        self._broker = broker
        self._store = store
        self._attention = attention
        self._networks = networks
        self._resolve = resolve
        self._stopping = asyncio.Event()
        self._client: httpx.AsyncClient | None = None
        self._worker = Worker("notifications", on_event=on_event)
        gives_up = Recoverability(
            immediate=0, delayed=Exponential(min=30, max=3_600, max_attempts=10), poison=(CallRefused,)
        )
        self._worker.handler(NOTIFICATIONS, recoverability=gives_up, slow_down=None, declare=True, concurrency=4)(
            self.deliver
        )

    # --- webhooks

    async def webhooks(self) -> list[WebhookInfo]:
        """Return all webhooks, in order of their names."""
        return await self._store.webhooks()

    async def add(
        self, name: str, url: str, events: Sequence[str] = EVENTS, *, secret: str | None = None, actor: str = ""
    ) -> NewWebhook:
        """Add a webhook.

        Args:
            name: its name.
            url: where it is called.
            events: what for.
            secret: what signs its requests, ``whsec_…``; None: one is made.
            actor: who adds it.

        Raises:
            WebhookConflict: there is one of this name.
        """
        return await self._add(name, url, events, secret, actor, replace=False)

    async def apply(self, name: str, url: str, events: Sequence[str], secret: str) -> WebhookInfo:
        """Add a webhook, or change it: for webhooks of a file, whose secret is ``env:NAME``."""
        return (await self._add(name, url, events, secret, "redrive.toml", replace=True)).info

    async def _add(
        self, name: str, url: str, events: Sequence[str], secret: str | None, actor: str, *, replace: bool
    ) -> NewWebhook:
        name, url, events = check_webhook(name, url, events)
        if secret is None:
            secret = secret_of(secrets.token_bytes(32))
        elif not replace or not secret.startswith("env:"):
            signing_key(secret)
        info = await self._store.add_webhook(name, url, events, secret, actor, replace=replace)
        if info is None:
            raise WebhookConflict(name)
        return NewWebhook(info, secret)

    async def remove(self, name: str) -> WebhookInfo:
        """Remove a webhook; what waits for it is dropped.

        Raises:
            WebhookNotFound: there is none of this name.
        """
        removed = await self._store.remove_webhook(name)
        if removed is None:
            raise WebhookNotFound(name)
        return removed

    async def test(self, name: str) -> WebhookTest:
        """Call a webhook once, now, and say what came of it.

        Raises:
            WebhookNotFound: there is none of this name.
        """
        found = await self._store.webhook_and_secret(name)
        if found is None:
            raise WebhookNotFound(name)
        notice = Notice(event=TEST, subject=f"webhook:{name}", sentence="This is a test.", since=None, count=0)
        event_id = secrets.token_hex(16)
        try:
            await self._call(found, body_of(event_id, notice, utc(self._broker.clock.time())))
        except (CallFailed, CallRefused, InvalidSetting) as error:
            return WebhookTest(name, delivered=False, problem=str(error))
        finally:
            await self._close()
        return WebhookTest(name, delivered=True, problem="")

    # --- noticing

    async def look(self) -> int:
        """Look once at what is so, and store what webhooks are to be called with; return how many calls that are."""
        webhooks = await self._store.webhooks()
        if not webhooks:
            return 0
        notices = notices_of(await self._attention.facts())
        known = await self._store.still_so([each.name for each in notices], _QUIET_S)
        return sum([await self._notice(each, webhooks) for each in notices if each.name not in known])

    async def _notice(self, notice: Notice, webhooks: Sequence[WebhookInfo]) -> int:
        at = utc(self._broker.clock.time())
        event_id = sha256(f"{notice.name} {at.isoformat()}".encode(errors="backslashreplace")).hexdigest()[:32]
        said = body_of(event_id, notice, at)
        wanted = [each.name for each in webhooks if each.wants(notice)]
        sends = [
            Send(NOTIFICATIONS, Message(encoded({"webhook": name, "said": said}), id=f"{event_id}-{name}"))
            for name in wanted
        ]
        try:
            await self._broker.apply(*sends, inside=self._store.notice(notice.name, event_id))
        except NoticeTaken:
            return 0
        return len(sends)

    # --- calling

    async def deliver(self, body: bytes) -> None:
        """Call a webhook with a message of the queue; a webhook that is gone is not called."""
        asked: dict[str, Any] = json.loads(body)
        found = await self._store.webhook_and_secret(asked["webhook"])
        if found is None:
            return
        tries = retry(
            on=CallFailed, policy=Exponential(min=1, max=5, max_attempts=3), deadline=30, clock=self._broker.clock
        )
        await tries.call_async(self._call, found, asked["said"])

    async def _call(self, webhook: tuple[WebhookInfo, str], said: dict[str, Any]) -> None:
        import httpx

        info, secret = webhook
        body, clock = encoded(said), self._broker.clock
        with any_variables():  # only a file can name one here, and what signs is not sent
            key = from_environment("secret", secret)
        headers = headers_of(key, said["id"], body, int(clock.time()))
        if self._client is None:
            self._client = http_client.new_client(_TIMEOUT_S, silence=_TIMEOUT_S, keeps_connections=False)
        try:
            async with clock.timeout(_TIMEOUT_S):
                request = await pinned_request(
                    self._client, info.url, headers, body, networks=self._networks, resolve=self._resolve
                )
                response = await self._client.send(request, stream=True)
        except AddressRefused as error:
            raise CallRefused(str(error)) from None
        except (TimeoutError, httpx.HTTPError, OSError) as error:
            raise CallFailed(one_line(f"{type(error).__name__}: {error}", 300)) from None
        try:
            status = response.status_code
            if 200 <= status < 300:
                return
            excerpt = await http_client.excerpt_of(response, clock, _TIMEOUT_S)
        finally:
            await response.aclose()
        problem = f"{info.name} answered {status}{f': {excerpt}' if excerpt else ''}"
        raise CallFailed(problem) if status >= 500 or status in _LATER else CallRefused(problem)

    # --- the part of a server

    async def run(self) -> None:
        """Look, and call webhooks, until ``stop()``."""
        await self._broker.declare(NOTIFICATIONS)
        working = asyncio.create_task(self._worker.run(self._broker), name="redrive notifications")
        looking = asyncio.create_task(self._look_on(), name="redrive notifications: looking")
        try:
            await asyncio.wait([working, looking], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stopping.set()
            self._worker.stop()
            looking.cancel()
            await asyncio.wait([working, looking])
            await self._close()
        working.result()

    def stop(self) -> None:
        """Call no more webhooks, and let ``run`` come to an end."""
        self._stopping.set()
        self._worker.stop()

    async def _look_on(self) -> None:
        keep_going = KeepGoing(_logger, "looking for what needs a person failed")
        while not self._stopping.is_set():
            with keep_going:
                await self.look()
            await pause(self._broker.clock, _LOOK_EVERY_S)

    async def _close(self) -> None:
        closing, self._client = self._client, None
        if closing is not None:
            await closing.aclose()
