# SPDX-License-Identifier: MIT
"""Receives the messages of a NATS JetStream stream through a durable pull consumer."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, ClassVar

from redrive.broker import Message
from redrive.clock import pause
from redrive.errors import InvalidSetting
from redrive.parts import shown_url, without_secrets
from redrive.routes.environment import PartEnvironment
from redrive.routes.header_texts import is_property, message_of
from redrive.routes.nats_client import NATS_URL, RESERVED, check_name, check_subject, require_nats, takes
from redrive.routes.parts import (
    ChoiceSetting,
    DurationSetting,
    EventReceiver,
    Intake,
    OpenReceiver,
    TextSetting,
    WholeSetting,
    setting,
)
from redrive.routes.receivers.acceptance import offer_delay
from redrive.routes.receivers.in_flight import InFlight, SourceVerdict, SourceWatch, end_tasks
from redrive.routes.receivers.jetstream_pull import ConsumerNames, PullLink

if TYPE_CHECKING:
    from nats.aio.msg import Msg


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JetStreamReceiver(EventReceiver):
    """Reads a JetStream stream; its messages are delivered again until they are taken over.

    All receivers with the same ``durable`` share the messages. One that fails is delivered again after
    ``replay_delay``. The server counts its deliveries; after ``max_replays`` more it is published to ``dead_subject``,
    and never delivered again.
    """

    kind: ClassVar[str] = "nats"

    url: str = setting(NATS_URL, "the server, such as nats://host:4222, several with commas between them, or env:NAME")
    stream: str = setting(TextSetting(), "the stream, which must exist")
    subject: str = setting(TextSetting(), "which subjects of the stream", ">")
    durable: str = setting(TextSetting(), "the durable consumer; it is made if there is none", "redrive")
    start: str = setting(
        ChoiceSetting(("new", "earliest")), "where a new consumer begins: with new messages or with the earliest", "new"
    )
    ack_wait: float = setting(
        DurationSetting(86_400.0),
        "how long the server waits for a receiver that is gone, if it makes the consumer",
        30.0,
    )
    replay_delay: float = setting(DurationSetting(86_400.0), "how long a message that failed waits for a replay", 30.0)
    dead_subject: str | None = setting(
        TextSetting(), "where messages go that failed too often; by default dead, the stream and the consumer", None
    )
    concurrency: int = setting(WholeSetting(1, 10_000), "how many messages are under way at a time", 16)

    @property
    def address(self) -> str:
        """The server, the stream, and the subjects unless it reads all."""
        return "/".join((NATS_URL.server(self.url), self.stream, *([self.subject] if self.subject != ">" else [])))

    @property
    def dead_letters(self) -> str:
        """The subject of messages that failed too often."""
        return self.dead_subject or f"dead.{self.stream}.{self.durable}"

    def check(self) -> None:
        """See that the names are names, and that what is dead does not come back."""
        EventReceiver.check(self)
        check_name("stream", self.stream)
        check_name("durable", self.durable)
        check_subject("subject", self.subject, wildcards=True)
        check_subject("dead_subject", self.dead_letters, wildcards=False)
        if self.subject != ">" and takes(self.subject, self.dead_letters):  # of a whole stream the server is asked
            raise InvalidSetting(
                "dead_subject", self.dead_letters, f"must not be one of {self.subject!r}, which is read"
            )

    def open(self, environment: PartEnvironment) -> OpenReceiver:
        """Return the receiver at work."""
        require_nats()
        return _OpenJetStreamReceiver(self, environment, NATS_URL.resolved("url", self.url))

    def __str__(self) -> str:
        return EventReceiver.__str__(self).replace(repr(self.url), repr(shown_url(self.url)))

    __repr__ = __str__


class _OpenJetStreamReceiver:
    def __init__(self, part: JetStreamReceiver, environment: PartEnvironment, url: str) -> None:
        self._part = part
        self._environment = environment
        self._url = url

    async def run(self, intake: Intake) -> None:
        watch = SourceWatch(self._environment, partial(without_secrets, url=self._url))
        in_flight = InFlight(intake, self._environment, self._part.concurrency)
        work = _ConsumerWork(self._part, self._environment, self._url, watch, in_flight)
        holding = asyncio.get_running_loop().create_task(work.hold())
        try:
            await in_flight.read(work.read())
        finally:
            try:
                await end_tasks(holding)
            finally:
                await work.disconnect()


class _ConsumerWork:
    """What one process does for the consumer, over one connection after another."""

    def __init__(
        self, part: JetStreamReceiver, environment: PartEnvironment, url: str, watch: SourceWatch, in_flight: InFlight
    ) -> None:
        from nats.errors import Error

        self._part = part
        self._clock, self._chance = environment.clock, environment.chance
        self._watch = watch
        self._in_flight = in_flight
        self._faults = (Error, OSError)
        consumer = ConsumerNames(part.stream, part.durable, part.subject, part.start, part.ack_wait, part.dead_letters)
        self._link = PullLink(consumer, url, self._clock, self._begin)
        self._newest: dict[str, Msg] = {}

    # --- reading

    async def read(self) -> None:
        """Pull messages and begin with them, over one connection after another, until cancelled."""
        while not self._in_flight.is_ending:
            try:
                await self._link.open()
                self._watch.works()
                await self._read_until_lost()
            except self._faults as error:
                await self._link.close()
                await self._watch.failed(error)

    async def hold(self) -> None:
        """Keep the messages that are under way from being delivered again, until cancelled."""
        while not self._in_flight.is_over:
            await pause(self._clock, min(self._part.ack_wait, self._link.ack_wait) / 3)
            for delivered in tuple(self._newest.values()):
                with suppress(*self._faults):
                    await self._link.answer(delivered, b"+WPI")

    async def disconnect(self) -> None:
        """Disconnect."""
        await self._link.close()

    async def _read_until_lost(self) -> None:
        reading = asyncio.get_running_loop().create_task(self._pull())
        try:
            await asyncio.wait({reading, self._link.lost}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
            if not self._in_flight.is_ending:
                raise ConnectionResetError("the connection was lost")
        finally:
            await end_tasks(reading)
            with suppress(*self._faults):  # before anything is given back, which the server would deliver here again
                await self._link.stop()

    async def _pull(self) -> None:
        while room := await self._in_flight.room():
            await self._link.pull(room)

    async def _begin(self, delivered: "Msg") -> None:
        """Begin with a message. One that is under way here was delivered again because it was held too late."""
        name = str(delivered.metadata.sequence.stream)
        if self._in_flight.is_ending:
            await self._link.answer(delivered, b"-NAK")
            return
        is_new = name not in self._in_flight
        if is_new or name in self._newest:
            self._newest[name] = delivered
        if is_new:
            self._in_flight.begin(name, self._take(name, delivered))

    # --- one message

    async def _take(self, name: str, delivered: "Msg") -> None:
        try:
            await self._settle(name, delivered)
        finally:
            del self._newest[name]

    async def _settle(self, name: str, delivered: "Msg") -> None:
        verdict = await self._in_flight.accept(partial(_message, self._part, delivered))
        if verdict.action == "forget":
            await self._confirm(name)
            return
        with suppress(*self._faults):  # then it is delivered again after ack_wait
            if verdict.action == "keep":
                await self._link.answer(self._newest[name], b"-NAK")
            else:
                await self._refuse(self._newest[name], verdict)

    async def _confirm(self, name: str) -> None:
        """Acknowledge a message, again and again until it would be delivered again anyway."""
        ends_at = self._clock.monotonic() + self._link.ack_wait
        for n in count(1):
            with suppress(*self._faults):
                await self._link.confirm(self._newest[name], b"+ACK")
                return
            if self._in_flight.is_ending or self._clock.monotonic() >= ends_at:
                return  # its id is known
            await pause(self._clock, offer_delay(n, self._chance()))

    async def _refuse(self, delivered: "Msg", verdict: SourceVerdict) -> None:
        """Have a message delivered again after a while, or move it to the dead ones."""
        if verdict.action == "replay" and delivered.metadata.num_delivered <= self._part.max_replays:
            await self._link.answer(delivered, self._later())
            return
        reason = verdict.reason[:1_000]
        try:
            await self._link.publish_dead(delivered, reason)
        except self._faults as error:
            self._watch.note(error)
            await self._link.answer(delivered, self._later())
            return
        self._watch.set_aside(_event_id(self._part, delivered), self._part.dead_letters, reason)
        await self._link.confirm(delivered, b"+TERM")

    def _later(self) -> bytes:
        return f'-NAK {{"delay": {int(self._part.replay_delay * 1e9)}}}'.encode()


def _event_id(part: JetStreamReceiver, delivered: "Msg") -> str:
    given = (delivered.headers or {}).get("Nats-Msg-Id", "")
    return given if is_property(given) else f"nats:{part.stream}:{delivered.metadata.sequence.stream}"


def _message(part: JetStreamReceiver, delivered: "Msg") -> Message:
    """Return the event that a message is."""
    given = (delivered.headers or {}).items()  # some releases of the library make objects of values that are not ASCII
    texts = [(name, str(text)) for name, text in given if not name.lower().startswith(RESERVED)]
    return message_of(delivered.data, _event_id(part, delivered), texts, delivered.subject[:1_024])
