# SPDX-License-Identifier: MIT
"""Opening the queues and the store of failed messages for a command, and closing them; an error ends the command."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import typer

from redrive import connect, connection_url, open_attention, open_recovery
from redrive.access import Access, RedactionRules
from redrive.access.redactions import rules_of_infos
from redrive.broker import Broker, dead_letter_queue, is_own_queue, rules, source_queue
from redrive.broker.port import Database, find_ability
from redrive.cli.audit import AuditedChange, in_trail
from redrive.cli.exit_status import ExitStatus
from redrive.cli.options.connection import URL_VARIABLE, BrokerConnection, RecoveryConnection, missing_file
from redrive.cli.options.sources import SOURCES_VARIABLE, Sources
from redrive.cli.options.transform import ALLOWED_VARIABLE
from redrive.cli.output import console
from redrive.cli.output.progress import progress_bar
from redrive.cli.output.redaction import also_hide
from redrive.cli.output.sentences import count, some, them, verb
from redrive.errors import FailureNotFound, InvalidSetting, QueueNotFound, RedriveError
from redrive.printable import one_line
from redrive.recovery import (
    FailedDetail,
    Filter,
    MessageFailed,
    MessageSetAside,
    Recovery,
    ServiceSettings,
    Status,
    TransformSettings,
)
from redrive.remote import (
    TOKEN_VARIABLE,
    RemoteAccess,
    RemoteBroker,
    RemoteRecovery,
    RemoteWebhooks,
    ServerConnection,
    is_server,
)
from redrive.telemetry import Event
from redrive.wiring import open_access, open_notifications

if TYPE_CHECKING:
    from redrive.notifications import Notifications

T = TypeVar("T")

_ID = re.compile(r"[0-9a-fA-F]{32}")


# --- the queues


def with_broker(
    connection: BrokerConnection,
    do: Callable[[Broker], Awaitable[T]],
    *,
    may_create: bool = False,
    change: AuditedChange | None = None,
) -> T:
    """Open the broker, do something with it, close it; an error is printed and ends the command.

    Args:
        connection: where it is.
        do: what to do.
        may_create: whether a database that does not exist is created; for other commands that is an error.
        change: what it changes, for the audit trail; None: nothing.
    """
    url = connection.broker_url
    if not may_create:
        check_exists(url)
    try:
        return asyncio.run(_connected(url, lambda broker: in_trail(broker, change, lambda: do(broker))))
    except RedriveError as error:
        raise _failure(url, error) from None


async def _connected(url: str, do: Callable[[Broker], Awaitable[T]]) -> T:
    if is_server(url):
        async with _server(url) as server:
            return await do(cast("Broker", RemoteBroker(server)))  # it refuses what it does not have
    async with connect(url) as broker:
        await _hide_stored(broker)
        return await do(broker)


async def _hide_stored(broker: Broker) -> None:
    """Hide in messages what the database says, beside what the file says; a server has done that itself."""
    is_database = find_ability(broker.engine, Database) is not None
    also_hide(rules_of_infos(await open_access(broker).redactions.rules()) if is_database else RedactionRules())


def with_access(
    connection: BrokerConnection,
    do: Callable[[Access], Awaitable[T]],
    *,
    may_create: bool = False,
    change: AuditedChange | None = None,
) -> T:
    """Open who may use the server, do something, close it; an error is printed and ends the command.

    Args:
        connection: where it is: a database, or a server that knows.
        do: what to do.
        may_create: whether a database that does not exist is created.
        change: what it changes, for the audit trail; None: nothing.
    """
    if is_server(connection.broker_url):  # it refuses what it does not have
        return _through(connection, lambda server: do(cast("Access", RemoteAccess(server))))
    return with_broker(connection, lambda broker: do(open_access(broker)), may_create=may_create, change=change)


def with_webhooks(
    connection: BrokerConnection, do: "Callable[[Notifications], Awaitable[T]]", *, may_create: bool = False
) -> T:
    """Open the webhooks, do something, close them; an error is printed and ends the command, as in ``with_access``."""
    if is_server(connection.broker_url):
        return _through(connection, lambda server: do(cast("Notifications", RemoteWebhooks(server))))

    def work(broker: Broker) -> Awaitable[T]:
        return do(open_notifications(broker, open_attention(broker)))

    return with_broker(connection, work, may_create=may_create)


def _through(connection: BrokerConnection, do: Callable[[ServerConnection], Awaitable[T]]) -> T:
    async def asked() -> T:
        async with _server(connection.broker_url) as server:
            return await do(server)

    try:
        return asyncio.run(asked())
    except RedriveError as error:
        raise console.failure(error) from None


def _server(url: str) -> ServerConnection:
    also_hide(RedactionRules())  # the server has hidden what it has to
    return ServerConnection(url, os.environ.get(TOKEN_VARIABLE))


def _failure(url: str, error: RedriveError) -> typer.Exit:
    """Print an error; if a queue does not exist, name the one that was perhaps meant."""
    if isinstance(error, QueueNotFound) and error.similar is None:  # not every engine looks for one
        error = QueueNotFound(error.queue, asyncio.run(_similar(url, error.queue)))
    return console.failure(error)


async def _similar(url: str, queue: str) -> str | None:
    try:
        async with connect(url) as broker:
            names = [each.name for each in await broker.queues() if not is_own_queue(each.name)]
    except RedriveError:
        return None  # the error that is reported is the first one
    return next(iter(get_close_matches(queue, names, 1)), None)


def check_exists(url: str) -> None:
    """End the command if a URL names a database that does not exist: a typing mistake must not create an empty one."""
    if missing := missing_file(url):
        raise console.refusal(
            f"there is no database {one_line(missing)}; say where it is with --url or ${URL_VARIABLE}, "
            "or create one by declaring a queue: redrive queues declare NAME"
        )


# --- the store of failed messages


@dataclass(slots=True)
class IngestCount:
    """Counts the failures that are read, and passes every event on.

    Attributes:
        read: how many were read.
        set_aside: how many could not be read.
        observer: gets every event; None: nothing does.
    """

    read: int = 0
    set_aside: int = 0
    observer: Callable[[Event], None] | None = None

    def __call__(self, event: Event) -> None:
        """Take an event."""
        self.read += isinstance(event, MessageFailed)
        self.set_aside += isinstance(event, MessageSetAside)
        if self.observer is not None:
            self.observer(event)


@dataclass(frozen=True, slots=True)
class OpenRecovery:
    """Recovery, open, with its broker.

    Attributes:
        recovery: the facade.
        broker: the queues.
        sources: the queues that failures are read from.
        ingested: counts the failures that were read.
    """

    recovery: Recovery
    broker: Broker
    sources: tuple[str, ...]
    ingested: IngestCount = field(default_factory=IngestCount)

    async def ingest(self) -> None:
        """Read all failures that are there now, with a progress bar if there are many."""
        total = sum([await self.recovery.unread_in(queue) for queue in self.sources])
        count = self.ingested
        with progress_bar() as bar:
            task = bar.add_task("reading failures", total=total, visible=total > 1_000)
            count.observer = lambda _event: bar.update(task, completed=count.read + count.set_aside)
            try:
                await self.recovery.ingest()
            finally:
                count.observer = None

    async def unread(self) -> dict[str, int]:
        """Return how many failures are not in the store yet, by queue; queues without any are left out."""
        return await self.recovery.unread(self.sources)

    def unread_hint(self, unread: Mapping[str, int]) -> str:
        """Return a sentence about failures that are not read, and the option or command that reads them."""
        here = {queue: number for queue, number in unread.items() if queue in self.sources}
        dead = {source_queue(queue): number for queue, number in unread.items() if queue not in self.sources}
        parts: list[str] = []
        if number := sum(here.values()):
            where = f"{verb(number, 'is')} not read from {some(list(here))} yet"
            parts.append(f"{count(number, 'failure')} {where}: redrive ingest reads {them(number)}")
        if number := sum(dead.values()):
            where = f"of {some(list(dead))} {verb(number, 'is')} not read: add --dead"
            parts.append(f"{count(number, 'dead letter')} {where}")
        return "; ".join(parts)

    async def failed_message(self, name: str) -> FailedDetail:
        """Return the failed message with a number or an id: its own, or the one that its sender gave it."""
        if is_id(name):
            return await self.recovery.show(name.lower())
        everything = Filter(status=frozenset(Status))
        if name.isascii() and name.isdecimal():
            page = await self.recovery.failed(everything, after=int(name) - 1, limit=1)
            if page and page[0].number == int(name):
                return await self.recovery.show(page[0].id)
        page = await self.recovery.failed(Filter(status=everything.status, message_ids=(name,)), limit=10)
        if len(page) > 1:
            numbers = ", ".join(str(each.number) for each in page)
            raise console.refusal(f"several have the id {name!r}; say which number: {numbers}", ExitStatus.NOT_FOUND)
        if not page:
            raise FailureNotFound(name)
        return await self.recovery.show(page[0].id)


def is_id(text: str) -> bool:
    """Say whether a text looks like the id of a failed message."""
    return _ID.fullmatch(text) is not None


def with_recovery(
    connection: RecoveryConnection,
    do: Callable[[OpenRecovery], Awaitable[T]],
    sources: Sources | None = None,
    *,
    check: Callable[[], object] | None = None,
    may_create: bool = False,
    functions: Sequence[str] = (),
) -> T:
    """Open recovery, read new failures, do something, close it; an error is printed and ends the command.

    Args:
        connection: where the queues and the failed messages are.
        do: what to do.
        sources: the queues to read first; None: none.
        check: refuses options that are not valid, before anything is read.
        may_create: whether a store that does not exist is created.
        functions: the functions that may change messages, beside those in the environment.
    """
    _check_both_exist(connection, may_create=may_create)
    console.silence_log()
    try:
        if check is not None:
            check()
        if is_server(connection.broker_url):
            return asyncio.run(_opened_there(connection, do))
        return asyncio.run(_opened(connection, do, sources, _settings(functions)))
    except RedriveError as error:
        raise _failure(connection.broker_url, error) from None


def _check_both_exist(connection: RecoveryConnection, *, may_create: bool) -> None:
    if missing := missing_file(connection.broker_url):
        problem = f"there is no database {one_line(missing)}; say where the queues are with --url or ${URL_VARIABLE}"
        raise console.refusal(problem)
    store = connection.store_url
    if store is not None and not may_create and (missing := missing_file(store)):
        shown = store if connection_url.shown(store) == store else "URL"
        raise console.refusal(
            f"there is no store {one_line(missing)}; "
            f"create it by reading failures into it: redrive ingest --store {one_line(shown)}"
        )


def _settings(functions: Sequence[str]) -> ServiceSettings:
    allowed = (*functions, *os.environ.get(ALLOWED_VARIABLE, "").replace(",", " ").split())
    if allowed and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return ServiceSettings(transforms=TransformSettings(allow=allowed))


async def _opened_there(connection: RecoveryConnection, do: Callable[[OpenRecovery], Awaitable[T]]) -> T:
    """Do something through a server: it reads failures by itself."""
    if connection.store_url is not None:
        raise InvalidSetting("store", connection.store_url, "must be left out with a server, which has its own")
    async with _server(connection.broker_url) as server:
        broker = RemoteBroker(server)
        recovery = RemoteRecovery(server, broker)
        return await do(OpenRecovery(cast("Recovery", recovery), cast("Broker", broker), ()))


async def _opened(
    connection: RecoveryConnection,
    do: Callable[[OpenRecovery], Awaitable[T]],
    sources: Sources | None,
    settings: ServiceSettings,
) -> T:
    async with (
        connect(connection.broker_url) as broker,
        opened_recovery(broker, connection.store_url, sources, settings) as opened,
    ):
        await _hide_stored(broker)
        if sources is not None and not sources.no_ingest:
            await opened.ingest()
            _print_ingested(opened)
        return await do(opened)


@asynccontextmanager
async def opened_recovery(
    broker: Broker, store: str | None, sources: Sources | None = None, settings: ServiceSettings | None = None
) -> AsyncGenerator[OpenRecovery]:
    """Open recovery with the queues that were named, or else with those that failures came from before."""
    stated = sources.stated if sources is not None else ()
    read = stated or await _usual_sources(broker, store)
    if sources is not None and sources.dead:
        names = [queue.name for queue in await broker.queues() if not is_own_queue(queue.name)]
        read = tuple(dict.fromkeys((*read, *map(dead_letter_queue, names))))
    ingested = IngestCount()
    async with open_recovery(broker, store, sources=read, settings=settings, on_event=ingested) as recovery:
        yield OpenRecovery(recovery, broker, read, ingested)


async def _usual_sources(broker: Broker, store: str | None) -> tuple[str, ...]:
    """Return the error queue, and the queues that failures were read from before: failures arrive there again."""
    first = os.environ.get(SOURCES_VARIABLE, "").replace(",", " ").split() or [rules.ERROR_QUEUE]
    async with open_recovery(broker, store, sources=()) as recovery:
        known = await recovery.sources()
    return tuple(dict.fromkeys((*first, *known)))


def _print_ingested(opened: OpenRecovery) -> None:
    ingested = opened.ingested
    if ingested.read:
        moved = f"moved {count(ingested.read, 'failure')} from {some(opened.sources)} into the store"
        console.hint(f"{moved} (--no-ingest leaves {them(ingested.read)} there)")
    if number := ingested.set_aside:
        console.warn(f"{number:,} could not be read and {verb(number, 'is')} set aside: redrive failed aside")
