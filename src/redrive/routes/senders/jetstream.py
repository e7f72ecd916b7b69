# SPDX-License-Identifier: MIT
"""Sends events to a NATS JetStream subject."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from redrive.broker import Message
from redrive.parts import shown_url, without_secrets
from redrive.printable import class_name, one_line
from redrive.routes.environment import PartEnvironment
from redrive.routes.header_texts import KEY, header_texts
from redrive.routes.nats_client import NATS_URL, RESERVED, check_subject, close_nats, nats_client, require_nats
from redrive.routes.outcomes import Delivered, DestinationDown, Rejected, SendOutcome, TryLater
from redrive.routes.parts import DurationSetting, EventSender, OpenSender, TextSetting, setting

if TYPE_CHECKING:
    from nats.aio.client import Client


@dataclass(frozen=True, slots=True, repr=False)
class JetStreamSender(EventSender):
    """Publishes events to a subject that a stream takes, and waits until it has them.

    The key of the delivery is the ``Nats-Msg-Id``: within its ``duplicate_window`` the stream drops a repeated event.
    """

    kind: ClassVar[str] = "nats"

    url: str = setting(NATS_URL, "the server, such as nats://host:4222, several with commas between them, or env:NAME")
    subject: str = setting(TextSetting(), "the subject; a stream must take it")
    timeout: float = setting(DurationSetting(3_600.0), "how long to wait for an answer", 5.0)

    @property
    def destination(self) -> str:
        """The server and the subject."""
        return f"{NATS_URL.server(self.url)}/{self.subject}"

    def check(self) -> None:
        """See that the subject is one."""
        check_subject("subject", self.subject, wildcards=False)

    def open(self, environment: PartEnvironment) -> OpenSender:
        """Return the sender at work."""
        require_nats()
        return _OpenJetStreamSender(self, NATS_URL.resolved("url", self.url))

    def __str__(self) -> str:
        return EventSender.__str__(self).replace(repr(self.url), repr(shown_url(self.url)))

    __repr__ = __str__


class _OpenJetStreamSender:
    def __init__(self, part: JetStreamSender, url: str) -> None:
        self._part = part
        self._url = url
        self._nats: Client | None = None
        self._connecting = asyncio.Lock()

    async def send(self, message: Message, key: str) -> SendOutcome:
        from nats.errors import Error

        try:
            nats = await self._connected()
        except (Error, OSError) as error:
            return DestinationDown(self._reason(error))
        headers = _headers(message, key)
        if _size(headers, message.body) > nats.max_payload:  # the server would end the connection
            return Rejected(f"the event is larger than the {nats.max_payload:,} bytes that the server takes")
        try:
            await nats.jetstream(timeout=self._part.timeout).publish(self._part.subject, message.body, headers=headers)
        except (Error, OSError) as error:
            return self._failure(error, is_connected=nats.is_connected)
        return Delivered()

    async def close(self) -> None:
        if self._nats is not None:
            await close_nats(self._nats)

    async def _connected(self) -> "Client":
        async with self._connecting:
            if self._nats is None or not self._nats.is_connected:
                await self.close()
                self._nats = await nats_client(self._url, self._part.timeout, _nothing)
            return self._nats

    def _failure(self, error: Exception, *, is_connected: bool) -> SendOutcome:
        from nats.errors import BadHeaderError, MaxPayloadError
        from nats.js.errors import APIError, NoStreamResponseError

        if isinstance(error, NoStreamResponseError):
            subject = self._part.subject
            return DestinationDown(f"no stream takes subject {subject}; nats stream add --subjects {subject} makes one")
        if isinstance(error, BadHeaderError):
            return Rejected(f"{self._reason(error)}; a transform filter can rename the header")
        is_refused = isinstance(error, APIError) and error.code is not None and 400 <= error.code <= 499
        if isinstance(error, MaxPayloadError) or is_refused:
            return Rejected(self._reason(error))
        if isinstance(error, TimeoutError) and is_connected:
            return TryLater(f"no answer within {self._part.timeout:g} s")
        return DestinationDown(self._reason(error))

    def _reason(self, error: Exception) -> str:
        return one_line(without_secrets(f"{class_name(type(error))}: {error}", self._url), 300)


async def _nothing() -> None:
    """Do nothing when the connection is closed: the next event makes another."""


def _headers(message: Message, key: str) -> dict[str, str]:
    texts = header_texts(message, key)
    kept = {name: text for name, text in texts.items() if not name.lower().startswith(RESERVED) and name != KEY}
    return kept | {"Nats-Msg-Id": key}


def _size(headers: dict[str, str], body: bytes) -> int:
    """Return what a server counts: the headers as they are sent, and the body."""
    lines = sum(len(name.encode()) + len(text.encode()) + len(": \r\n") for name, text in headers.items())
    return len("NATS/1.0\r\n\r\n") + lines + len(body)
