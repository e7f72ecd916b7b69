# SPDX-License-Identifier: MIT
"""Bulk work on a queue from the command line: asked first, shown while it runs, told at the end."""

from collections.abc import Awaitable, Callable

import typer
from rich.progress import Progress, TaskID

from redrive.broker import Broker, Resubmitted
from redrive.cli import screen
from redrive.cli.reaching import confirm, wants_json, with_broker


def purge(context: typer.Context, queue: str, *, yes: bool, of: str) -> None:
    """Remove what can be received from a queue."""
    total = with_broker(context, lambda broker: broker.inspect(queue)).ready
    confirm(f"Remove {total:,} {of} from {queue} for good?", yes=yes or not total)
    purged = _watched(
        context, "removing", total, lambda broker, on_progress: broker.purge(queue, on_progress=on_progress)
    )
    _tell(context, queue, "removed", purged, f"{of} from {queue}")


def resubmit(context: typer.Context, queue: str, *, max_messages: int | None, yes: bool) -> None:
    """Send a queue's dead letters to it again."""
    dead = with_broker(context, lambda broker: broker.inspect(queue)).dead
    total = dead if max_messages is None else min(dead, max_messages)
    confirm(f"Send {total:,} dead letters to {queue} again?", yes=yes or not total)
    sent = _watched(
        context,
        "resubmitting",
        total,
        lambda broker, on_progress: broker.resubmit(queue, max_messages=max_messages, on_progress=on_progress),
    )
    rest = sent if isinstance(sent, Resubmitted) else Resubmitted(sent)
    _tell(context, queue, "resubmitted", sent, f"dead letters to {queue}", **_described(rest))
    if not wants_json(context):
        _tell_rest(queue, rest)
    if rest.stayed:
        raise typer.Exit(1)


def _described(rest: Resubmitted) -> dict[str, object]:
    stayed = [{"number": each.sequence, "id": each.id, "reason": each.reason} for each in rest.stayed]
    until = None if rest.locked_until is None else rest.locked_until.isoformat()
    return {"stayed": stayed, "locked": rest.locked, "locked_until": until}


def _tell_rest(queue: str, rest: Resubmitted) -> None:
    """Say which dead letters are where they were, and why."""
    if rest.stayed:
        many = len(rest.stayed)
        others = len({each.reason for each in rest.stayed}) - 1
        more = f"; and for {others:,} other reasons, see --json" if others else ""
        told = screen.printable(rest.stayed[0].reason)
        screen.err().print(
            f"{many:,} of {many + rest:,} {'stays' if many == 1 else 'stay'}: {told}{more}", soft_wrap=True
        )
    if rest.locked:
        until = "" if rest.locked_until is None else f" until {rest.locked_until:%H:%M:%S} UTC"
        told = f"{rest.locked:,} {'is' if rest.locked == 1 else 'are'} locked by somebody{until}; try again then"
        screen.err().print(f"{told}, or see them: redrive peek '{queue}/$dead'", soft_wrap=True)


def advance(bar: Progress, task: TaskID) -> Callable[[int], None]:
    """Return a function that shows how much is done."""
    return lambda done: bar.update(task, completed=done)


def _watched(
    context: typer.Context,
    verb: str,
    total: int,
    do: Callable[[Broker, Callable[[int], None]], Awaitable[int]],
) -> int:
    with screen.progress() as bar:
        shown = advance(bar, bar.add_task(verb, total=total))
        return with_broker(context, lambda broker: do(broker, shown))


def _tell(context: typer.Context, queue: str, verb: str, count: int, of: str, **rest: object) -> None:
    if wants_json(context):
        screen.print_json({"queue": queue, verb: count, **rest})
    else:
        screen.say(f"{verb} {count:,} {of}")
