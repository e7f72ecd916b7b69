# SPDX-License-Identifier: MIT
"""Sends events to a Redis stream. Valkey works like Redis."""

from dataclasses import dataclass
from typing import ClassVar, Final

from redrive.broker import Message
from redrive.parts import shown_url, without_secrets
from redrive.printable import one_line
from redrive.routes.environment import PartEnvironment
from redrive.routes.header_texts import header_texts
from redrive.routes.outcomes import Delivered, DestinationDown, Rejected, SendOutcome
from redrive.routes.parts import DurationSetting, EventSender, OpenSender, TextSetting, WholeSetting, setting
from redrive.routes.redis_client import REDIS_URL, redis_address, redis_client, require_redis

_DOWN: Final = (
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOAUTH",
    "NOPERM",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "UNBLOCKED",
    "WRONGPASS",
)
"""How refusals begin that have nothing to do with the event."""

_DOWN_CLASSES: Final = (
    "AskError",
    "ClusterDownError",
    "MasterDownError",
    "MovedError",
    "NoPermissionError",
    "OutOfMemoryError",
    "ReadOnlyError",
    "TryAgainError",
)
"""The same where the library has a class for it, and has removed the word."""


@dataclass(frozen=True, slots=True, repr=False)
class RedisStreamSender(EventSender):
    """Adds events to a Redis stream: the body in one field, and the headers in others.

    A stream takes the same event twice if the answer to the first attempt is lost. Both entries have the same
    ``idempotency-key``.
    """

    kind: ClassVar[str] = "redis"

    url: str = setting(REDIS_URL, "the server, such as redis://host:6379/0, or env:NAME")
    stream: str = setting(TextSetting(), "the key of the stream; it is made if there is none")
    body_field: str = setting(TextSetting(), "the field that the body is in", "body")
    maxlen: int | None = setting(
        WholeSetting(1, 10**12), "about how many entries the stream keeps; the oldest are removed", None
    )
    timeout: float = setting(DurationSetting(3_600.0), "how long to wait for an answer", 10.0)

    @property
    def destination(self) -> str:
        """The server and the stream."""
        return redis_address(self.url, self.stream)

    def open(self, environment: PartEnvironment) -> OpenSender:
        """Return the sender at work."""
        require_redis()
        return _OpenRedisSender(self, REDIS_URL.resolved("url", self.url))

    def __str__(self) -> str:
        return EventSender.__str__(self).replace(repr(self.url), repr(shown_url(self.url)))

    __repr__ = __str__


class _OpenRedisSender:
    def __init__(self, part: RedisStreamSender, url: str) -> None:
        self._part = part
        self._url = url
        self._client = redis_client(url, part.timeout)

    async def send(self, message: Message, key: str) -> SendOutcome:
        from redis.exceptions import RedisError

        part = self._part
        fields: dict[str, str | bytes] = {**header_texts(message, key), part.body_field: message.body}
        try:
            await self._client.xadd(part.stream, fields, maxlen=part.maxlen, approximate=True)
        except (RedisError, OSError) as error:
            return self._failure(error)
        return Delivered()

    async def close(self) -> None:
        await self._client.aclose()

    def _failure(self, error: Exception) -> SendOutcome:
        from redis.exceptions import ConnectionError as Disconnected
        from redis.exceptions import ResponseError

        reason = one_line(without_secrets(f"Redis: {error}", self._url), 300)
        is_refused = isinstance(error, ResponseError) and not isinstance(error, Disconnected)
        if is_refused and type(error).__name__ not in _DOWN_CLASSES and not str(error).startswith(_DOWN):
            return Rejected(reason)
        return DestinationDown(reason)
