# SPDX-License-Identifier: MIT
"""The connection to the servers: requests with an answer, and requests with many.

A connection that is lost stays lost, and the next request makes a new one, to whichever server answers. Requests that
may be repeated are, by layer 1, as long as the engine is patient: the election of a new leader takes seconds.
"""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error, NoRespondersError

from redrive.clock import system_clock
from redrive.engines.nats import errors
from redrive.engines.nats.errors import StreamRefusal
from redrive.errors import DeadlineExceeded, EngineUnavailable, StorageFull, UsageError
from redrive.retry import Exponential, Retry, retry

if TYPE_CHECKING:
    from nats.aio.subscription import Subscription

T = TypeVar("T")

_STATUS: Final = "Status"
_NOT_SENT: Final = "Nats-Pending-Messages"
_API: Final = "$JS.API"

NEEDED_VERSION: Final = (2, 12, 1)
"""The first with batches that are stored as a whole, schedules, and times to live for single messages."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A message as the stream has it.

    Attributes:
        subject: where.
        sequence: its number in the stream.
        headers: its headers.
        body: the rest.
    """

    subject: str
    sequence: int
    headers: Mapping[str, str]
    body: bytes


class NatsConnection:
    """The servers.

    Args:
        servers: their addresses.
        patience: for how many seconds a request is made again while no server answers.
        attempt: for how many seconds one attempt may go without an answer.
        on_new: called when a connection was made, with the client: subscriptions are made there.
    """

    def __init__(
        self,
        servers: Sequence[str],
        *,
        patience: float,
        attempt: float,
        on_new: Callable[[Client], Awaitable[None]],
    ) -> None:
        self._servers = list(servers)
        Random().shuffle(self._servers)  # so that not all programs use the same one
        self._attempt = attempt
        self._on_new = on_new
        self._client: Client | None = None
        self._connecting = asyncio.Lock()
        self._inboxes: set[_Inbox] = set()
        self._forbidden = ""
        self._reached = 0
        self._is_open = False
        self._was_open = False
        policy = Exponential(min=0.05, max=1.0, max_attempts=None)
        is_worth_it: Callable[[Exception], bool] = _is_worth_repeating
        self._retry: Retry = retry(on=is_worth_it, policy=policy, deadline=patience, clock=system_clock)
        self._retries: dict[str, Retry] = {}

    @property
    def where(self) -> str:
        """The servers, for errors: without the passwords that their addresses may have."""
        return ", ".join(sorted(address.rpartition("@")[2].removeprefix("nats://") for address in self._servers))

    @property
    def largest(self) -> int:
        """How many bytes a message may have, headers included."""
        return self._client.max_payload if self._client is not None else 1_048_576

    async def open(self) -> None:
        """Connect, once: a server that is not there is reported at once."""
        self._is_open = self._was_open = True
        try:
            client = await self.client()
            self._check_version(client)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Disconnect."""
        self._is_open = False
        client, self._client = self._client, None
        if client is not None:
            await _closed(client)

    def check_open(self) -> None:
        """See that it is open.

        Raises:
            UsageError: it is not.
        """
        if not self._is_open:
            state = "closed; open it again" if self._was_open else "not open; use it inside"
            raise UsageError(f"{self.where} is {state}: async with connect(...) as broker")

    async def client(self) -> Client:
        """Return a client that is connected."""
        self.check_open()
        if self._client is not None and self._client.is_connected:
            return self._client
        async with self._connecting:
            self.check_open()
            if self._client is None or not self._client.is_connected:
                if self._client is not None:
                    await _closed(self._client)
                self._client = await self._connected()
            return self._client

    async def _connected(self) -> Client:
        client = Client()
        try:
            async with asyncio.timeout(self._attempt * 2):
                await client.connect(
                    self._servers,
                    connect_timeout=self._attempt,  # type: ignore[arg-type]  # any number will do
                    allow_reconnect=False,
                    dont_randomize=True,
                    error_cb=self._note,
                    closed_cb=self._lost,
                    name="redrive",
                )
                await self._on_new(client)
        except errors.Trouble as error:
            await _closed(client)
            raise errors.translated(error, self.where) from error
        except BaseException:
            await _closed(client)
            raise
        return client

    def _check_version(self, client: Client) -> None:
        version = client.connected_server_version
        found = (version.major, version.minor, version.patch)
        if found < NEEDED_VERSION:
            needed, has = (".".join(map(str, each)) for each in (NEEDED_VERSION, found))
            raise UsageError(
                f"{self.where} is NATS {has}, and this needs {needed} or newer: older servers cannot store several "
                "messages as a whole; upgrade the servers"
            )

    async def _note(self, error: Exception) -> None:
        """Note what the server says without being asked; whatever fails is raised by the request that fails."""
        if "permissions violation" in str(error).lower():
            self._forbidden = str(error)

    async def _lost(self) -> None:
        for inbox in self._inboxes:
            inbox.answers.put_nowait(None)

    async def _leave_if_mute(self, client: Client) -> None:
        """Leave a server that does not even answer a ping, as one that is paused: the next request asks another one."""
        if client is not self._client or not client.is_connected:
            return
        try:
            await client.flush(timeout=math.ceil(self._attempt))
        except errors.Trouble:
            if client is self._client:
                self._client = None
                used = str(client.connected_url.netloc).rpartition("@")[2] if client.connected_url is not None else ""
                self._servers.sort(key=lambda address: used in address)  # it is the last that is tried
                await _closed(client)

    # --- requests

    async def again(self, operation: str, call: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Make a request that may be made twice, and make it again while no server answers."""
        try:
            return await call(*args)  # nearly always enough; it has a time limit of its own
        except EngineUnavailable as error:
            if not _is_worth_repeating(error):
                raise
        try:
            return await self._retry_of(operation).call_async(call, *args)
        except DeadlineExceeded as error:  # in the middle of an attempt, which may have been done
            raise errors.unanswered(f"{self.where}: no server has answered in time ({error})") from error

    def _retry_of(self, operation: str) -> Retry:
        if (known := self._retries.get(operation)) is None:
            known = self._retries[operation] = self._retry.using(operation=f"nats {operation}")
        return known

    async def ask(self, subject: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
        """Make a request, once; return the answer.

        Raises:
            EngineUnavailable: it was not done, or may have been.
        """
        client = await self.client()
        self._forbidden = ""
        try:
            with _no_lost_cancellation():
                return (await client.request(subject, body, timeout=self._attempt, headers=headers)).data
        except NoRespondersError as error:
            raise EngineUnavailable(
                f"{self.where}: no server answers; a leader is being elected, or JetStream is not enabled"
            ) from error
        except errors.Trouble as error:
            self._check_allowed(error)
            await self._leave_if_mute(client)
            unknown = errors.translated(error, self.where)
            is_unknown = isinstance(unknown, EngineUnavailable)
            raise errors.unanswered(str(unknown)) if is_unknown else unknown from error

    def _check_allowed(self, error: Exception) -> None:
        """Say so if a request has no answer because the user may not make it."""
        if self._forbidden:
            problem = f"the user may not do that; grant it the permission ({self._forbidden})"
            raise UsageError(f"{self.where}: {problem}") from error

    async def api_once(self, what: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask JetStream for something, once.

        Raises:
            StreamRefusal: it says no.
        """
        payload = b"" if body is None else json.dumps(body).encode()
        answer: dict[str, Any] = json.loads(await self.ask(f"{_API}.{what}", payload))
        if (refused := errors.refusal(answer)) is not None:
            if errors.is_passing(refused):
                raise errors.of_refusal(refused, self.where)
            raise refused
        return answer

    async def api(self, what: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask JetStream for something that may be asked for twice.

        Raises:
            StreamRefusal: it says no.
        """
        return await self.again(what.split(".", maxsplit=1)[0].lower(), self.api_once, what, body)

    async def publish(self, subject: str, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        """Send something that has no answer."""
        client = await self.client()
        try:
            await client.publish(subject, body, headers=headers)
        except errors.Trouble as error:
            raise errors.translated(error, self.where) from error

    async def many(self, subject: str, body: Mapping[str, Any], most: int) -> tuple[list[Msg], Msg | None]:
        """Make a request that has several answers; return at most that many, and how it ended.

        The end is a message with a status, and None if all that was asked for has come. On a cluster the status may be
        faster than the last messages; it says how many were not sent, so the others are waited for.
        """
        client = await self.client()
        found: list[Msg] = []
        end: Msg | None = None
        inbox = _Inbox(client)
        self._inboxes.add(inbox)
        try:
            await inbox.open()
            await client.publish(subject, json.dumps(body).encode(), reply=inbox.address)
            while len(found) < most:
                async with asyncio.timeout(self._attempt):
                    message = await inbox.answers.get()
                if message is None:
                    raise ConnectionResetError("the connection was lost")
                if message.headers and _STATUS in message.headers:
                    end = message
                    most = most - int(message.headers[_NOT_SENT]) if _NOT_SENT in message.headers else len(found)
                else:
                    found.append(message)
        except errors.Trouble as error:
            self._check_allowed(error)
            await self._leave_if_mute(client)
            if end is None:
                raise errors.translated(error, self.where) from error
        finally:
            self._inboxes.discard(inbox)
            await inbox.close()
        return found, end

    # --- reading the stream

    def note_reached(self, sequence: int) -> None:
        """Note that the stream has got so far: no reader is to be shown less from now on."""
        self._reached = max(self._reached, sequence)

    async def last(self, stream: str, subject: str) -> Stored | None:
        """Return the last message of a subject, which may have wildcards, as the leader has it."""
        return await self._get(stream, {"last_by_subj": subject})

    async def following(self, stream: str, sequence: int, subject: str) -> Stored | None:
        """Return the first message after a number of the stream whose subject fits, as the leader has it."""
        return await self._get(stream, {"seq": sequence + 1, "next_by_subj": subject})

    async def _get(self, stream: str, which: Mapping[str, Any]) -> Stored | None:
        from base64 import b64decode

        try:
            answer = (await self.api(f"STREAM.MSG.GET.{stream}", which))["message"]
        except StreamRefusal as error:
            if error.code == errors.NO_MESSAGE:
                return None
            raise errors.of_refusal(error, self.where) from error
        headers = _headers(b64decode(answer["hdrs"])) if "hdrs" in answer else {}
        self.note_reached(answer["seq"])
        return Stored(answer["subject"], answer["seq"], headers, b64decode(answer.get("data", "")))

    async def remove(self, stream: str, sequence: int) -> None:
        """Remove a message by its number in the stream. A server that is full does that, and stores nothing.

        Raises:
            StreamRefusal: there is no such message.
        """
        await self.api(f"STREAM.MSG.DELETE.{stream}", {"seq": sequence, "no_erase": True})

    async def last_of_each(self, stream: str, subjects: Sequence[str]) -> list[Stored]:
        """Return the last message of each of some subjects, those that have one.

        Any server answers that has a copy of the stream, and the copy may be old. So the answer must say that the copy
        has all that this engine knows of; otherwise the leader is asked.
        """
        found: list[Stored] = []
        for start in range(0, len(subjects), _AT_ONCE):
            page = subjects[start : start + _AT_ONCE]
            here = await self.again("get", self._last_of_page, stream, page, self._reached)
            found += await self._last_from_leader(stream, page) if here is None else here
        return found

    async def _last_of_page(self, stream: str, subjects: Sequence[str], reached: int) -> list[Stored] | None:
        """Return the last messages of some subjects; None if the copy that was read is behind, or may be."""
        messages, end = await self.many(f"{_API}.DIRECT.GET.{stream}", {"multi_last": list(subjects)}, 2**31)
        said = end.headers if end is not None and end.headers else {}
        status = said.get(_STATUS)
        if status not in ("204", "404"):
            problem = f"messages cannot be read ({status} {said.get('Description', '')})"
            raise EngineUnavailable(f"{self.where}: {problem}")
        is_behind = int(said.get("Nats-UpTo-Sequence", 0)) < reached  # a copy that has found nothing does not say it
        return None if is_behind else [_stored(message) for message in messages]

    async def _last_from_leader(self, stream: str, subjects: Sequence[str]) -> list[Stored]:
        found: list[Stored | None] = []
        for start in range(0, len(subjects), _BY_ONE):
            page = subjects[start : start + _BY_ONE]
            found += await asyncio.gather(*(self.last(stream, subject) for subject in page))
        return [each for each in found if each is not None]

    async def subjects(self, stream: str, pattern: str) -> list[str]:
        """Return the subjects that have a message, as the leader has them."""
        found: list[str] = []
        while True:
            try:
                answer = await self.api(f"STREAM.INFO.{stream}", {"subjects_filter": pattern, "offset": len(found)})
            except StreamRefusal as error:
                raise errors.of_refusal(error, self.where) from error
            self.note_reached(answer["state"]["last_seq"])
            page = answer["state"].get("subjects") or {}
            found += page
            if not page or len(found) >= answer.get("total", 0):
                return found


class _Inbox:
    """Where the answers to one request arrive.

    It is not used again: a server may send a status after the last message that was asked for, and messages that a
    consumer hands out do not say which request they answer. What comes late must not be taken for another's answer.

    Args:
        client: the connection.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._subscription: Subscription | None = None
        self.address = client.new_inbox()
        self.answers: asyncio.Queue[Msg | None] = asyncio.Queue()

    async def open(self) -> None:
        """Let answers in."""
        self._subscription = await self._client.subscribe(self.address, cb=self._take)

    async def close(self) -> None:
        """Let no more answers in."""
        if self._subscription is not None and self._client.is_connected:
            with suppress(Error, OSError):
                await self._subscription.unsubscribe()

    async def _take(self, message: Msg) -> None:
        self.answers.put_nowait(message)


_AT_ONCE: Final = 500
"""How many messages are read with one request; the server refuses more than 1,024."""

_BY_ONE: Final = 64
"""How many requests are made at a time where each reads one message."""


@contextmanager
def _no_lost_cancellation() -> Generator[None]:
    """Cancel the task after all if it was cancelled meanwhile.

    The client waits with ``asyncio.wait_for``, which before Python 3.12 forgets a cancellation when the answer comes in
    the same moment.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    yield
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError


def _is_worth_repeating(error: Exception) -> bool:
    return isinstance(error, EngineUnavailable) and not isinstance(error, StorageFull)


async def _closed(client: Client) -> None:
    with suppress(Error, OSError):
        await client.close()


def _headers(raw: bytes) -> dict[str, str]:
    lines = raw.decode(errors="replace").split("\r\n")[1:]
    return {name: value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}


def _stored(message: Msg) -> Stored:
    headers = {str(name): value for name, value in (message.headers or {}).items()}
    return Stored(headers["Nats-Subject"], int(headers["Nats-Sequence"]), headers, message.data)
