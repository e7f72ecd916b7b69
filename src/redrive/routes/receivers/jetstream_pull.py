# SPDX-License-Identifier: MIT
"""One connection to a durable pull consumer of JetStream: how messages are asked for and answered.

The library's own ``fetch`` loses messages when it is cancelled, and takes a message with a header ``Status`` for an
answer of the server. So requests are made here: one at a time, for as many messages as there is room for.
"""

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from redrive.clock import Clock
from redrive.routes.nats_client import RESERVED, close_nats, nats_client, takes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription
    from nats.js.api import ConsumerConfig, ConsumerInfo, StreamInfo

_TIMEOUT_S: Final = 5.0
_EXPIRES_S: Final = 5.0
"""How long the server keeps a request for messages."""

_IN_VAIN: Final = ("404", "408")
"""What the server answers when a request has found no message, or not as many."""

_NO_LIMIT: Final = -1


@dataclass(frozen=True, slots=True)
class ConsumerNames:
    """Which consumer it is, and how it is made if there is none.

    Attributes:
        stream: the stream.
        durable: the consumer's name.
        subject: the subjects that it reads.
        start: ``new`` or ``earliest``.
        ack_wait: seconds after which a message that was not answered is delivered again.
        dead_subject: where dead messages go.
    """

    stream: str
    durable: str
    subject: str
    start: str
    ack_wait: float
    dead_subject: str


class PullLink:
    """A connection to a consumer; opened again after each loss. Whatever fails raises ``OSError`` or the library's own.

    Args:
        names: which consumer.
        url: the real URLs.
        clock: what waiting goes by.
        begin: takes each message that is delivered.
    """

    def __init__(self, names: ConsumerNames, url: str, clock: Clock, begin: "Callable[[Msg], Awaitable[None]]") -> None:
        self._names = names
        self._url = url
        self._clock = clock
        self._begin = begin
        self._nats: Client | None = None
        self._deliveries: Subscription | None = None
        self._inbox = ""
        self._requests = 0
        self._missing = 0
        self._refusal: str | None = None
        self._answered = asyncio.Event()
        self._replicas = 1
        self.ack_wait = names.ack_wait
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self) -> None:
        """Connect, and make the consumer if there is none."""
        lost = self.lost = asyncio.get_running_loop().create_future()

        async def closed() -> None:
            if not lost.done():
                lost.set_result(None)

        nats = self._nats = await nats_client(self._url, _TIMEOUT_S, closed)
        await self._find_consumer(nats)
        self._inbox = nats.new_inbox()
        self._deliveries = await nats.subscribe(f"{self._inbox}.*", cb=self._arrived)

    async def stop(self) -> None:
        """Let nothing more be delivered."""
        if self._deliveries is not None:
            await self._deliveries.unsubscribe()

    async def close(self) -> None:
        """Disconnect."""
        if self._nats is not None:
            await close_nats(self._nats)

    async def pull(self, most: int) -> None:
        """Ask for messages, and wait until that many were delivered or the server gives up."""
        self._requests += 1
        self._missing = most
        request = {"batch": most, "expires": int(_EXPIRES_S * 1e9)}
        place = f"$JS.API.CONSUMER.MSG.NEXT.{self._names.stream}.{self._names.durable}"
        reply = f"{self._inbox}.{self._requests}"
        await self._connected().publish(place, json.dumps(request).encode(), reply=reply)
        async with self._clock.timeout(_EXPIRES_S + _TIMEOUT_S):
            while self._missing > 0:
                self._answered.clear()
                await self._answered.wait()
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise ConnectionError(f"the server refuses to deliver: {refusal}")

    async def answer(self, delivered: "Msg", word: bytes) -> None:
        """Answer a message, without knowing whether that arrives."""
        await self._connected().publish(delivered.reply, word)

    async def confirm(self, delivered: "Msg", word: bytes) -> None:
        """Answer a message, and wait until the server has noted it."""
        await self._connected().request(delivered.reply, word, timeout=_TIMEOUT_S)

    async def publish_dead(self, delivered: "Msg", reason: str) -> None:
        """Publish a copy of a message to the subject of dead ones; make a stream for it if none takes it."""
        from nats.js.errors import NoStreamResponseError

        jetstream = self._connected().jetstream(timeout=_TIMEOUT_S)
        names, facts = self._names, delivered.metadata
        given = (delivered.headers or {}).items()
        headers = {name: text for name, text in given if not name.lower().startswith(RESERVED)} | {
            "Nats-Msg-Id": f"dead:{names.stream}:{names.durable}:{facts.sequence.stream}",
            "dead-reason": reason,
            "dead-stream": names.stream,
            "dead-subject": delivered.subject,
            "dead-sequence": str(facts.sequence.stream),
            "dead-deliveries": str(facts.num_delivered),
        }
        try:
            await jetstream.publish(names.dead_subject, delivered.data, headers=headers)
        except NoStreamResponseError:
            name, subjects = f"dead-{names.stream}-{names.durable}", [names.dead_subject]
            await jetstream.add_stream(name=name, subjects=subjects, num_replicas=self._replicas)
            await jetstream.publish(names.dead_subject, delivered.data, headers=headers)

    def _connected(self) -> "Client":
        if self._nats is None:
            raise ConnectionError("there is no connection")
        return self._nats

    async def _arrived(self, delivered: "Msg") -> None:
        """Take a message, or what the server says about the request: that comes to the inbox under its own name."""
        if not delivered.subject.startswith(f"{self._inbox}."):
            self._missing -= 1
            await self._begin(delivered)
        elif delivered.subject == f"{self._inbox}.{self._requests}":
            self._missing = 0
            headers = delivered.headers or {}
            if headers.get("Status") not in _IN_VAIN:
                self._refusal = f"{headers.get('Status')} {headers.get('Description', '')}".strip()
        self._answered.set()

    async def _find_consumer(self, nats: "Client") -> None:
        from nats.js.errors import NotFoundError

        names = self._names
        jetstream = nats.jetstream(timeout=_TIMEOUT_S)
        try:
            stream = await jetstream.stream_info(names.stream)
        except NotFoundError:
            raise ConnectionError(f"there is no stream {names.stream!r}; nats stream add makes one") from None
        try:
            consumer = await jetstream.consumer_info(names.stream, names.durable)
        except NotFoundError:
            consumer = await jetstream.add_consumer(names.stream, _new_consumer(names))
        if (problem := _problem_with(names, stream, consumer)) is not None:
            raise ConnectionError(problem)
        self._replicas = stream.config.num_replicas or 1
        self.ack_wait = consumer.config.ack_wait or names.ack_wait


def _new_consumer(names: ConsumerNames) -> "ConsumerConfig":
    """Return a consumer that never gives up: a message that it gave up would be in the stream and never delivered.

    Messages that wait for a replay count as unanswered, so there must be no limit to those either.
    """
    from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

    return ConsumerConfig(
        name=names.durable,
        durable_name=names.durable,
        filter_subject=None if names.subject == ">" else names.subject,
        deliver_policy=DeliverPolicy.NEW if names.start == "new" else DeliverPolicy.ALL,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=names.ack_wait,
        max_deliver=_NO_LIMIT,
        max_ack_pending=_NO_LIMIT,
    )


def _problem_with(names: ConsumerNames, stream: "StreamInfo", consumer: "ConsumerInfo") -> str | None:
    """Return why a consumer cannot be used, and what to do."""
    from nats.js.api import AckPolicy

    which = f"the consumer {names.durable!r} of the stream {names.stream!r}"
    config = consumer.config
    if config.deliver_subject or config.ack_policy != AckPolicy.EXPLICIT:
        return f"{which} must be a pull consumer with explicit acknowledgement; choose another durable"
    subjects = config.filter_subjects or [config.filter_subject or ">"]
    if subjects != [names.subject]:
        return f"{which} reads {', '.join(subjects)}, not {names.subject}; choose another durable"
    taken = stream.config.subjects or []
    if takes(names.subject, names.dead_subject) and any(takes(each, names.dead_subject) for each in taken):
        return f"{which} would read its own dead messages; set dead_subject to one that the stream does not take"
    return None
