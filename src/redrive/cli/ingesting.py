# SPDX-License-Identifier: MIT
"""``redrive ingest``: read error queues and dead-letter queues into the store of failed messages."""

from typing import Annotated

import typer

from redrive.cli import screen, wording
from redrive.cli.exit_status import ExitStatus
from redrive.cli.ledgers import Desk, Place, Sources, with_recovery
from redrive.cli.option_groups import spread
from redrive.cli.reaching import complete_queue
from redrive.clock import pause
from redrive.recovery import views

_LOOK_EVERY_S = 0.5


@spread
def ingest(
    context: typer.Context,
    place: Place,
    *,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            "--queue", "--source", metavar="QUEUE", autocompletion=complete_queue, help="An error queue; repeat it."
        ),
    ] = None,
    dead_letters: Annotated[
        list[str] | None,
        typer.Option(metavar="QUEUE", autocompletion=complete_queue, help="A queue whose dead letters are read."),
    ] = None,
    dead: Annotated[bool, typer.Option("--dead", help="The dead letters of all queues, too.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
) -> None:
    """Read failures into the store, where they can be found, grouped and recovered.

    They leave their queues for it. What cannot be read is set aside, and
    nothing is lost. Without options it reads the queue error, or those in
    $REDRIVE_SOURCES, and whatever was read before.

    Examples:
      redrive ingest
      redrive ingest --dead
      redrive ingest --dead-letters orders --dead-letters billing
      redrive ingest --queue error --store sqlite:///recovery.db --follow
    """
    sources = Sources(queue, dead_letters, dead=dead)
    desks: list[Desk] = []

    async def read(desk: Desk) -> None:
        desks.append(desk)
        for each in sources.stated:
            await desk.broker.inspect(each)
        await desk.ingest()
        _tell(desk, as_json=place.as_json)
        while follow:
            before = desk.tally.read, desk.tally.aside
            await pause(desk.broker.clock, _LOOK_EVERY_S)
            await desk.recovery.ingest()
            if (desk.tally.read, desk.tally.aside) != before:
                _tell(desk, as_json=place.as_json)

    try:
        with_recovery(context, read, sources.unread, may_create=True)
    except KeyboardInterrupt:
        if desks and not follow:
            _tell(desks[0], as_json=place.as_json)
        raise typer.Exit(0 if follow else int(ExitStatus.INTERRUPTED)) from None


def _tell(desk: Desk, *, as_json: bool) -> None:
    tally = desk.tally
    if as_json:
        screen.print_json(views.ingest_view(tally.read, tally.aside, desk.sources))
        return
    aside = f"; {tally.aside:,} could not be read: redrive failed aside" if tally.aside else ""
    screen.say(f"read {wording.count(tally.read, 'failure')} from {wording.some(desk.sources)}{aside}")
