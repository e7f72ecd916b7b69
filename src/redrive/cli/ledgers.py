# SPDX-License-Identifier: MIT
"""Reaching recovery from a command: where failures are kept, which queues they are read from, who asks."""

import asyncio
import getpass
import logging
import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from redrive import connect, connection_url, open_recovery
from redrive.broker import Broker, dead_letter_queue, source_queue
from redrive.cli import screen, wording
from redrive.cli.exit_status import ExitStatus
from redrive.cli.reaching import complete_queue, missing_file, url_of
from redrive.cli.screen import AsJson
from redrive.errors import QueueNotFound, RedriveError
from redrive.printable import one_line
from redrive.recovery import MessageFailed, MessageSetAside, Recovery, ServiceSettings, TransformSettings
from redrive.recovery.recovery import ERROR_QUEUE
from redrive.telemetry import Event

T = TypeVar("T")

STORE = "REDRIVE_STORE"
SOURCES = "REDRIVE_SOURCES"
ACTOR = "REDRIVE_ACTOR"
ALLOWED = "REDRIVE_ALLOW_TRANSFORMS"
_OWN = "redrive."


Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Where the queues are; $REDRIVE_URL, or else ./redrive.db.")
]
Store = Annotated[
    str | None,
    typer.Option(metavar="URL", help=f"Where failures are kept; ${STORE}, or else where the queues are."),
]
AllowTransform = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE:NAME",
        help=f"Let this function change messages; MODULE:* and PACKAGE.* are all of one; repeat it. ${ALLOWED}.",
    ),
]
Actor = Annotated[str | None, typer.Option(metavar="TEXT", help=f"Who you are; ${ACTOR}, or else user@host.")]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the queues and the failures are, and how to answer."""

    store: Store = None
    url: Url = None
    as_json: AsJson = False


@dataclass(frozen=True, slots=True)
class Sources:
    """What is read before anything else."""

    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUEUE", autocompletion=complete_queue, help="Read failures from this queue only; repeat it."
        ),
    ] = None
    dead_letters: Annotated[
        list[str] | None,
        typer.Option(metavar="QUEUE", autocompletion=complete_queue, help="Read this queue's dead letters; repeat it."),
    ] = None
    dead: Annotated[bool, typer.Option("--dead", help="Read the dead letters of all queues, too.")] = False
    no_ingest: Annotated[bool, typer.Option("--no-ingest", help="Do not read new failures first.")] = False

    @property
    def stated(self) -> tuple[str, ...]:
        """The queues that were named."""
        return (*(self.source or ()), *map(dead_letter_queue, self.dead_letters or ()))

    @property
    def unread(self) -> "Sources":
        """The same, for a command that reads nothing, or not before it has begun."""
        return replace(self, no_ingest=True)


@dataclass(slots=True)
class Tally:
    """Counts what is read, and passes everything on to whoever shows it."""

    read: int = 0
    aside: int = 0
    shown_by: Callable[[Event], None] | None = None

    def __call__(self, event: Event) -> None:
        """Take an event."""
        self.read += isinstance(event, MessageFailed)
        self.aside += isinstance(event, MessageSetAside)
        if self.shown_by is not None:
            self.shown_by(event)


@dataclass(frozen=True, slots=True)
class Desk:
    """Recovery, open.

    Attributes:
        recovery: the facade.
        broker: the queues.
        sources: the queues that failures are read from.
        tally: counts them.
    """

    recovery: Recovery
    broker: Broker
    sources: tuple[str, ...]
    tally: Tally = field(default_factory=Tally)

    async def ingest(self) -> None:
        """Read all failures that are there now, with a progress bar if there are many."""
        there = [await self._unread_in(queue) for queue in self.sources]
        with screen.progress() as bar:
            task = bar.add_task("reading failures", total=sum(there), visible=sum(there) > 1_000)
            self.tally.shown_by = lambda _event: bar.update(task, completed=self.tally.read + self.tally.aside)
            try:
                await self.recovery.ingest()
            finally:
                self.tally.shown_by = None

    async def waiting(self) -> dict[str, int]:
        """Return how many failures there are that nobody has read, by the queue they are in: only where there are some.

        Whoever leaves failures where they are must not look as if there were none: neither what a dry run leaves in
        error queues, nor the dead letters that a worker without an error queue leaves.
        """
        there = {queue: await self._unread_in(queue) for queue in self.sources}
        for queue in await self.broker.queues():
            dead = dead_letter_queue(queue.name)
            if queue.name not in there and dead not in there and not queue.name.startswith(_OWN):
                there[dead] = queue.dead
        return {queue: many for queue, many in there.items() if many}

    async def _unread_in(self, queue: str) -> int:
        """Return how many failures can be read from a queue; its own dead letters are read along."""
        try:
            found = await self.broker.inspect(queue)
        except QueueNotFound:
            return 0
        return found.ready + found.dead


def unread(desk: Desk, waiting: Mapping[str, int]) -> str:
    """Return a sentence about failures that nobody has read, and the option or command that reads them."""
    here = {queue: many for queue, many in waiting.items() if queue in desk.sources}
    dead = {source_queue(queue): many for queue, many in waiting.items() if queue not in desk.sources}
    sentences: list[str] = []
    if many := sum(here.values()):
        them = "it" if many == 1 else "them"
        waits = f"{wording.verb(many, 'waits')} unread in {wording.some(list(here))}"
        sentences.append(f"{wording.count(many, 'failure')} {waits}: redrive ingest reads {them}")
    if many := sum(dead.values()):
        of = wording.some(list(dead))
        sentences.append(
            f"{wording.count(many, 'dead letter')} of {of} {wording.verb(many, 'is')} not read: add --dead"
        )
    return "; ".join(sentences)


def with_recovery(
    context: typer.Context,
    do: Callable[[Desk], Awaitable[T]],
    sources: Sources | None = None,
    *,
    check: Callable[[], object] | None = None,
    may_create: bool = False,
) -> T:
    """Open recovery, read new failures, do something, close it; an error is told and ends the command.

    Args:
        context: the command's.
        do: what to do.
        sources: what is read first; None: nothing.
        check: refuses what cannot be understood, before anything is read.
        may_create: whether a store that is not there is made: it would take in failures nobody looks for there.
    """
    _check_there(context, may_create=may_create)
    quieten()
    try:
        if check is not None:
            check()
        return asyncio.run(_at_desk(context, do, sources))
    except RedriveError as error:
        raise screen.failure(error) from None


def store_of(context: typer.Context) -> str | None:
    """Return the store that was given, to the command or in the environment; None: where the queues are."""
    stated: str | None = context.params.get("store")
    return stated if stated is not None else os.environ.get(STORE) or None


def settings_of(context: typer.Context) -> ServiceSettings:
    """Return how the work is done: with the functions that were named, in the command or in the environment."""
    named = [*(context.params.get("allow_transform") or ()), context.params.get("function")]
    named += os.environ.get(ALLOWED, "").replace(",", " ").split()
    allowed = tuple(each for each in named if each)
    if allowed and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return ServiceSettings(transforms=TransformSettings(allow=allowed))


def who(actor: str | None) -> str:
    """Return who asks."""
    return actor or os.environ.get(ACTOR) or f"{getpass.getuser()}@{socket.gethostname()}"


def quieten() -> None:
    """Keep events out of the terminal, unless somebody has said where logs go: commands tell what matters."""
    layer = logging.getLogger("redrive")
    if not layer.handlers and not logging.getLogger().handlers:
        layer.addHandler(logging.NullHandler())


def _check_there(context: typer.Context, *, may_create: bool) -> None:
    if missing := missing_file(url_of(context)):
        raise screen.refusal(
            f"there is no database {one_line(missing)}; say where the queues are with --url or $REDRIVE_URL",
            ExitStatus.ERROR,
        )
    store = store_of(context)
    if store is not None and not may_create and (missing := missing_file(store)):
        where = connection_url.shown(store) if connection_url.shown(store) == store else "URL"
        raise screen.refusal(
            f"there is no store {one_line(missing)}; "
            f"make it by reading failures into it: redrive ingest --store {one_line(where)}",
            ExitStatus.ERROR,
        )


async def _at_desk(context: typer.Context, do: Callable[[Desk], Awaitable[T]], sources: Sources | None) -> T:
    settings = settings_of(context)
    async with connect(url_of(context)) as broker, opened(broker, store_of(context), sources, settings) as desk:
        if sources is not None and not sources.no_ingest:
            await desk.ingest()
            _tell_read(desk)
        return await do(desk)


@asynccontextmanager
async def opened(
    broker: Broker, store: str | None, sources: Sources | None, settings: ServiceSettings | None = None
) -> AsyncGenerator[Desk]:
    """Open recovery with the queues that were named, or else with those that failures came from before."""
    stated = sources.stated if sources is not None else ()
    read = stated or await _usual_sources(broker, store)
    if sources is not None and sources.dead:
        names = [queue.name for queue in await broker.queues() if not queue.name.startswith(_OWN)]
        read = tuple(dict.fromkeys((*read, *map(dead_letter_queue, names))))
    tally = Tally()
    async with open_recovery(broker, store, sources=read, settings=settings, on_event=tally) as recovery:
        yield Desk(recovery, broker, read, tally)


async def _usual_sources(broker: Broker, store: str | None) -> tuple[str, ...]:
    """Return the error queue, and whatever else failures were read from: what fails again comes that way again."""
    first = os.environ.get(SOURCES, "").replace(",", " ").split() or [ERROR_QUEUE]
    async with open_recovery(broker, store, sources=()) as recovery:
        known = await recovery.sources()
    return tuple(dict.fromkeys((*first, *known)))


def _tell_read(desk: Desk) -> None:
    if many := desk.tally.read:
        moved = f"took {wording.count(many, 'failure')} out of {wording.some(desk.sources)} into the store"
        screen.hint(f"{moved} (--no-ingest leaves {'it' if many == 1 else 'them'} there)")
    if many := desk.tally.aside:
        left = f"{many:,} could not be read and {wording.verb(many, 'is')} set aside: redrive failed aside"
        screen.hint(left, "yellow")
