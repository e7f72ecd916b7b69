# SPDX-License-Identifier: MIT
"""``redrive ingest``: read error queues and dead-letter queues into the store of failed messages."""

from typing import Annotated

import typer

from redrive.cli.exit_status import ExitStatus
from redrive.cli.open import OpenRecovery, with_recovery
from redrive.cli.options.connection import RecoveryConnection, complete_queue
from redrive.cli.options.groups import grouped
from redrive.cli.options.sources import Sources
from redrive.cli.output import console
from redrive.cli.output.sentences import count, some
from redrive.cli.stop_signals import interrupts, run_until_stopped
from redrive.clock import pause
from redrive.recovery import views

_LOOK_EVERY_S = 0.5


@grouped
def ingest(
    *,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            "--queue", "--source", metavar="QUEUE", autocompletion=complete_queue, help="An error queue; repeatable."
        ),
    ] = None,
    dead_letters: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUEUE", autocompletion=complete_queue, help="Read the dead letters of this queue; repeatable."
        ),
    ] = None,
    dead: Annotated[bool, typer.Option("--dead", help="Also read the dead letters of all queues.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until Ctrl-C.")] = False,
    connection: RecoveryConnection,
) -> None:
    """Read failures into the store.

    They are moved out of their queues; in the store they can be found, grouped
    and recovered. A message that cannot be read as a failure is set aside.
    Without options it reads the queue error, or those in $REDRIVE_SOURCES,
    and all queues that were read before.

    Examples:
      redrive ingest
      redrive ingest --dead
      redrive ingest --dead-letters orders --dead-letters billing
      redrive ingest --queue error --store sqlite:///recovery.db --follow
    """
    sources = Sources(queue, dead_letters, dead=dead)

    async def read(opened: OpenRecovery) -> bool:
        work = _read(opened, sources, follow=follow, as_json=connection.as_json)
        is_stopped = await run_until_stopped(signals, work)
        if is_stopped and not follow:
            _print_count(opened, as_json=connection.as_json)
        return is_stopped

    with interrupts() as signals:
        is_stopped = with_recovery(connection, read, sources.without_ingest, may_create=True)
    if is_stopped and not follow:
        raise typer.Exit(int(ExitStatus.INTERRUPTED))


async def _read(opened: OpenRecovery, sources: Sources, *, follow: bool, as_json: bool) -> None:
    for each in sources.stated:
        await opened.broker.inspect(each)
    await opened.ingest()
    _print_count(opened, as_json=as_json)
    ingested = opened.ingested
    while follow:
        before = ingested.read, ingested.set_aside
        await pause(opened.broker.clock, _LOOK_EVERY_S)
        await opened.recovery.ingest()
        if (ingested.read, ingested.set_aside) != before:
            _print_count(opened, as_json=as_json)


def _print_count(opened: OpenRecovery, *, as_json: bool) -> None:
    ingested = opened.ingested
    if as_json:
        console.print_json(views.ingest_view(ingested.read, ingested.set_aside, opened.sources))
        return
    aside = f"; {ingested.set_aside:,} could not be read: redrive failed aside" if ingested.set_aside else ""
    console.say(f"read {count(ingested.read, 'failure')} from {some(opened.sources)}{aside}")
