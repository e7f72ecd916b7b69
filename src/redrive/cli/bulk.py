# SPDX-License-Identifier: MIT
"""Bulk work on a queue from the command line: asked first, shown while it runs, told at the end."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import typer

from redrive.broker import Broker, Resubmitted, dead_letter_queue, views
from redrive.cli import screen, wording
from redrive.cli.exit_status import ExitStatus
from redrive.cli.interrupts import Interrupted, first_interrupt
from redrive.cli.reaching import confirm, wants_json, with_broker
from redrive.printable import one_line


def purge(context: typer.Context, queue: str, *, yes: bool, of: str) -> None:
    """Remove what can be received from a queue."""
    total = with_broker(context, lambda broker: broker.inspect(queue)).ready
    confirm(f"Remove {wording.count(total, of)} from {queue} for good?", yes=yes or not total)
    done = _watched(
        context, "removing", total, lambda broker, on_progress: broker.purge(queue, on_progress=on_progress)
    )
    if wants_json(context):
        screen.print_json(views.purged_view(queue, done.many, interrupted=done.is_interrupted))
    else:
        _say(f"removed {wording.count(done.many, of)} from {queue}", done)
    _check_whole(done)


def resubmit(context: typer.Context, queue: str, *, max_messages: int | None, yes: bool) -> None:
    """Send a queue's dead letters to it again."""
    dead = with_broker(context, lambda broker: broker.inspect(queue)).dead
    total = dead if max_messages is None else min(dead, max_messages)
    confirm(f"Send {wording.count(total, 'dead letter')} to {queue} again?", yes=yes or not total)
    done = _watched(
        context,
        "resubmitting",
        total,
        lambda broker, on_progress: broker.resubmit(queue, max_messages=max_messages, on_progress=on_progress),
    )
    rest = done.many if isinstance(done.many, Resubmitted) else Resubmitted(done.many)
    if wants_json(context):
        screen.print_json(views.resubmitted_view(queue, rest, interrupted=done.is_interrupted))
    else:
        _say(f"resubmitted {wording.count(int(rest), 'dead letter')} to {queue}", done)
    _check_whole(done)
    if not wants_json(context):
        _tell_rest(queue, rest)
    if rest.stayed:
        raise typer.Exit(int(ExitStatus.NOT_ALL))


def _tell_rest(queue: str, rest: Resubmitted) -> None:
    """Say which dead letters are where they were, and why."""
    if rest.stayed:
        many = len(rest.stayed)
        others = len({each.reason for each in rest.stayed}) - 1
        more = f"; and for {wording.count(others, 'other reason')}, see --json" if others else ""
        stays = wording.verb(many, "stays")
        screen.hint(f"{many:,} of {many + rest:,} {stays}: {one_line(rest.stayed[0].reason)}{more}", "yellow")
    if rest.locked:
        until = "" if rest.locked_until is None else f" until {wording.instant(rest.locked_until)}"
        told = f"{rest.locked:,} {wording.verb(rest.locked, 'is')} locked by somebody{until}; try again then"
        screen.hint(f"{told}, or see them: redrive peek '{dead_letter_queue(queue)}'", "yellow")


class _Done(NamedTuple):
    """How far bulk work came, and whether somebody stopped it."""

    many: int
    is_interrupted: bool


def _watched(
    context: typer.Context,
    verb: str,
    total: int,
    do: Callable[[Broker, Callable[[int], None]], Awaitable[int]],
) -> _Done:
    """Do bulk work with a progress bar; Ctrl-C ends it after the page that it is at."""

    async def work(broker: Broker) -> _Done:
        count = 0
        with screen.progress() as bar, first_interrupt() as interrupt:
            task = bar.add_task(verb, total=total)

            def on_progress(done: int) -> None:
                nonlocal count
                count = done
                bar.update(task, completed=done)
                if interrupt.is_set:
                    raise Interrupted

            try:
                return _Done(await do(broker, on_progress), is_interrupted=False)
            except Interrupted:
                return _Done(count, is_interrupted=True)

    return with_broker(context, work)


def _say(sentence: str, done: _Done) -> None:
    screen.say(sentence + ("; stopped before the end" if done.is_interrupted else ""))


def _check_whole(done: _Done) -> None:
    if done.is_interrupted:
        raise typer.Exit(int(ExitStatus.INTERRUPTED))
