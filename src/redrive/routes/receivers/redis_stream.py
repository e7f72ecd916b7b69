# SPDX-License-Identifier: MIT
"""Receives the entries of a Redis stream as a member of a consumer group. Valkey works like Redis."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, ClassVar, Final, TypeAlias, cast

from redrive.broker import Message, random_id
from redrive.clock import pause
from redrive.errors import InvalidSetting
from redrive.parts import shown_url, without_secrets
from redrive.routes.environment import PartEnvironment
from redrive.routes.header_texts import message_of
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
from redrive.routes.redis_client import REDIS_URL, RedisClient, redis_address, redis_client, require_redis

_Fields: TypeAlias = Mapping[bytes, bytes]
_Entries: TypeAlias = Sequence[tuple[bytes | None, _Fields | None]]

_TIMEOUT_S: Final = 10.0
_LONGEST_BLOCK_S: Final = 1.0
"""How long the server waits for entries: much shorter than the time in which it must answer."""

_SET_ASIDE: Final = """\
redis.call('XADD', KEYS[2], '*', unpack(ARGV, 3))
return redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])"""
"""A script, since MULTI goes on after an error: the entry would be acknowledged although its copy was refused."""

_LEAVE: Final = """\
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) > 0 then return 0 end
return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])"""
"""A script, since a consumer that is deleted takes its pending entries with it."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RedisStreamReceiver(EventReceiver):
    """Reads a Redis stream; its entries stay pending until they are taken over.

    An entry that is not acknowledged is delivered again after ``min_idle``, to any receiver of the group. The server
    counts its deliveries; one that fails after ``max_replays`` more is moved to ``dead_stream``.
    """

    kind: ClassVar[str] = "redis"

    url: str = setting(REDIS_URL, "the server, such as redis://host:6379/0, or env:NAME")
    stream: str = setting(TextSetting(), "the key of the stream")
    group: str = setting(TextSetting(), "the consumer group; it is made if there is none", "redrive")
    start: str = setting(
        ChoiceSetting(("new", "earliest")), "where a new group begins: with new entries or with the earliest", "new"
    )
    body_field: str = setting(
        TextSetting(), "the field that is the body; without it all fields are, as a JSON object", "body"
    )
    min_idle: float = setting(
        DurationSetting(86_400.0), "how long an entry of a receiver that gave up or is gone stays where it is", 60.0
    )
    dead_stream: str | None = setting(
        TextSetting(), "where entries go that failed too often; by default the stream's key and .dead", None
    )
    concurrency: int = setting(WholeSetting(1, 10_000), "how many entries are under way at a time", 16)

    @property
    def address(self) -> str:
        """The server and the stream."""
        return redis_address(self.url, self.stream)

    @property
    def dead_letters(self) -> str:
        """The stream of entries that failed too often."""
        return self.dead_stream or f"{self.stream}.dead"

    def check(self) -> None:
        """See that what is dead does not come back."""
        EventReceiver.check(self)
        if self.dead_letters == self.stream:
            raise InvalidSetting("dead_stream", self.dead_stream, "must be another stream than the one that is read")

    def open(self, environment: PartEnvironment) -> OpenReceiver:
        """Return the receiver at work."""
        require_redis()
        return _OpenRedisReceiver(self, environment, REDIS_URL.resolved("url", self.url))

    def __str__(self) -> str:
        return EventReceiver.__str__(self).replace(repr(self.url), repr(shown_url(self.url)))

    __repr__ = __str__


class _OpenRedisReceiver:
    def __init__(self, part: RedisStreamReceiver, environment: PartEnvironment, url: str) -> None:
        self._part = part
        self._environment = environment
        self._url = url

    async def run(self, intake: Intake) -> None:
        client = redis_client(self._url, _TIMEOUT_S)
        watch = SourceWatch(self._environment, partial(without_secrets, url=self._url))
        in_flight = InFlight(intake, self._environment, self._part.concurrency)
        member = _GroupMember(self._part, self._environment, client, watch, in_flight)
        holding = asyncio.get_running_loop().create_task(member.hold())
        try:
            await in_flight.read(member.read())
        finally:
            try:
                await end_tasks(holding)
                await member.leave()
            finally:
                await client.aclose()


class _GroupMember:
    """One consumer of the group. Its name is never used again; what it leaves behind is claimed by others."""

    def __init__(
        self,
        part: RedisStreamReceiver,
        environment: PartEnvironment,
        client: RedisClient,
        watch: SourceWatch,
        in_flight: InFlight,
    ) -> None:
        from redis.exceptions import RedisError, ResponseError

        self._part = part
        self._stream, self._group = part.stream, part.group
        self._name = f"redrive:{random_id()}"
        self._clock, self._chance = environment.clock, environment.chance
        self._client = client
        self._watch = watch
        self._in_flight = in_flight
        self._faults = (RedisError, OSError)
        self._refused = ResponseError
        self._is_member = False
        self._last_read: bytes | None = None
        self._claim_at = 0.0
        self._claim_from = b"0-0"
        self._done: set[str] = set()
        self._acknowledging = asyncio.Lock()

    # --- reading

    async def read(self) -> None:
        """Read entries and begin with them, until cancelled."""
        while room := await self._in_flight.room():
            try:
                if not self._is_member:
                    await self._join()
                room -= self._begin(await self._claimed(room))
                if room > 0:
                    self._begin(await self._new(room))
            except self._faults as error:
                self._is_member = False
                await self._watch.failed(error)
            else:
                self._watch.works()

    async def hold(self) -> None:
        """Keep the entries that are under way from being claimed by others, until cancelled."""
        while not self._in_flight.is_over:
            await pause(self._clock, self._part.min_idle / 3)
            names = list(self._in_flight)
            if names:
                with suppress(*self._faults):  # JUSTID: it is no delivery, and is not counted as one
                    await self._client.xclaim(self._stream, self._group, self._name, 0, names, justid=True)

    async def leave(self) -> None:
        """Leave the group, unless there is something that others have to claim."""
        with suppress(*self._faults):
            await self._client.eval(_LEAVE, 1, self._stream, self._group, self._name)

    async def _join(self) -> None:
        """Make the group. One that was lost begins where this receiver was: nothing is skipped."""
        start = self._last_read or {"new": "$", "earliest": "0"}[self._part.start]
        try:
            await self._client.xgroup_create(self._stream, self._group, start, mkstream=True)
        except self._refused as error:
            if "BUSYGROUP" not in str(error):
                raise
        self._is_member = True

    async def _claimed(self, room: int) -> _Entries:
        """Return entries that were delivered before and not acknowledged, if it is time to look for them."""
        if self._clock.monotonic() < self._claim_at:
            return ()
        idle_ms = max(1, round(self._part.min_idle * 1_000))
        found = await self._client.xautoclaim(self._stream, self._group, self._name, idle_ms, self._claim_from, room)
        self._claim_from = found[0]
        is_through = self._claim_from == b"0-0"
        self._claim_at = self._clock.monotonic() + (self._part.min_idle / 2 if is_through else 0.0)
        claimed: _Entries = found[1]
        return claimed

    async def _new(self, room: int) -> _Entries:
        seconds = min(_LONGEST_BLOCK_S, self._claim_at - self._clock.monotonic())
        block = max(1, int(seconds * 1_000))  # 0 would be for ever
        found = await self._client.xreadgroup(self._group, self._name, {self._stream: ">"}, room, block)
        entries = _entries_in(found)
        if entries:
            self._last_read = entries[-1][0]
        return entries

    def _begin(self, entries: _Entries) -> int:
        """Begin with entries; return with how many. One that is under way here was claimed because it was held late."""
        begun = 0
        for entry_id, fields in entries:
            name = (entry_id or b"").decode()
            if name and name not in self._in_flight and not self._in_flight.is_ending:
                self._in_flight.begin(name, self._take(name, fields))
                begun += 1
        return begun

    # --- one entry

    async def _take(self, name: str, fields: _Fields | None) -> None:
        if fields is None:  # it was deleted from the stream
            await self._acknowledge(name)
            return
        verdict = await self._in_flight.accept(partial(_message, self._part, name, fields))
        if verdict.action == "forget":
            await self._acknowledge(name)
        elif verdict.action != "keep":
            with suppress(*self._faults):  # then it stays pending, and comes again
                await self._refuse(name, fields, verdict)

    async def _acknowledge(self, name: str) -> None:
        """Acknowledge an entry together with all others that are waiting for that."""
        self._done.add(name)
        for n in count(1):
            async with self._acknowledging:
                if name not in self._done or await self._acknowledged():
                    return
            if self._in_flight.is_ending:
                return  # it will be delivered again, and its id is known
            await pause(self._clock, offer_delay(n, self._chance()))

    async def _acknowledged(self) -> bool:
        batch = tuple(self._done)
        try:
            await self._client.xack(self._stream, self._group, *batch)
        except self._faults:
            return False
        self._done.difference_update(batch)
        return True

    async def _refuse(self, name: str, fields: _Fields, verdict: SourceVerdict) -> None:
        """Leave an entry pending, so that it is claimed after a while, or move it to the dead ones."""
        found = await self._client.xpending_range(self._stream, self._group, name, name, 1)
        deliveries = int(found[0]["times_delivered"]) if found else 1
        if verdict.action == "replay" and deliveries <= self._part.max_replays:
            return
        reason = verdict.reason[:1_000]
        facts = {"dead-reason": reason, "dead-stream": self._stream, "dead-id": name, "dead-deliveries": deliveries}
        copy = [each for pair in (*fields.items(), *facts.items()) for each in pair]
        place = self._part.dead_letters
        await self._client.eval(_SET_ASIDE, 2, self._stream, place, self._group, name, *copy)
        self._watch.set_aside(_event_id(self._part, name), place, reason)


def _entries_in(found: Any) -> _Entries:  # noqa: ANN401 - the library answers in three shapes
    rows = list(found.values()) if isinstance(found, dict) else [row[1] for row in found or ()]
    entries: Any = rows[0] if rows else ()
    return cast("_Entries", entries[0] if entries and isinstance(entries[0], list) else entries)


def _event_id(part: RedisStreamReceiver, name: str) -> str:
    return f"redis:{part.stream}:{name}"


def _message(part: RedisStreamReceiver, name: str, fields: _Fields) -> Message:
    """Return the event that an entry is."""
    body_field = part.body_field.encode()
    if body_field not in fields:
        texts = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in fields.items()}
        body = json.dumps(texts, ensure_ascii=False).encode()
        return message_of(body, _event_id(part, name), [("content-type", "application/json")])
    headers: list[tuple[str, str]] = []
    for key, value in fields.items():
        with suppress(UnicodeDecodeError):
            if key != body_field:
                headers.append((key.decode(), value.decode()))
    return message_of(fields[body_field], _event_id(part, name), headers)
