# SPDX-License-Identifier: MIT
"""Bulk work on a queue: with a question first, a progress bar, and an exact count at the end, also after Ctrl-C."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

import typer

from redrive.broker import Broker, Message, Resubmitted, Send, dead_letter_queue, views
from redrive.cli.audit import AuditedChange
from redrive.cli.exit_status import ExitStatus
from redrive.cli.open import with_broker
from redrive.cli.options.connection import BrokerConnection
from redrive.cli.output import console
from redrive.cli.output.progress import progress_bar
from redrive.cli.output.prompt import confirm
from redrive.cli.output.sentences import count, instant, verb
from redrive.cli.stop_signals import interrupts
from redrive.clock import system_clock, utc
from redrive.printable import one_line
from redrive.remote import RemoteBroker

_BATCH = 1_000


# --- sending


@dataclass(slots=True)
class SendCount:
    """How many messages were sent."""

    queue: str
    sent: int = 0
    duplicates: int = 0
    first: int | None = None
    last: int | None = None
    left: int = 0

    def add(self, sequences: Iterable[int | None]) -> None:
        """Count a batch."""
        for sequence in sequences:
            if sequence is None:
                self.duplicates += 1
                continue
            self.sent += 1
            self.first = sequence if self.first is None else self.first
            self.last = sequence

    def add_view(self, answer: views.View) -> None:
        """Count a batch that a server has sent."""
        self.sent += answer["sent"]
        self.duplicates += answer["duplicates"]
        self.first = answer["first_sequence"] if self.first is None else self.first
        self.last = answer["last_sequence"] or self.last

    def view(self) -> views.View:
        """Return it as JSON."""
        return views.sent_view(
            self.queue,
            sent=self.sent,
            duplicates=self.duplicates,
            first_sequence=self.first,
            last_sequence=self.last,
            not_sent=self.left,
        )

    def __str__(self) -> str:
        numbers = "" if self.first is None else f", number {self.first}"
        numbers += "" if self.first == self.last else f" to {self.last}"
        dropped = f"; {self.duplicates:,} dropped as duplicates" if self.duplicates else ""
        left = f"; stopped, {self.left:,} not sent" if self.left else ""
        return f"sent {self.sent:,} to {self.queue}{numbers}{dropped}{left}"


def send(
    connection: BrokerConnection,
    queue: str,
    bodies: list[bytes],
    message: Callable[[bytes], Message],
    delay: float | None,
) -> None:
    """Send messages in batches, each all or nothing; Ctrl-C ends it after a batch."""
    sent = SendCount(queue, left=len(bodies))

    async def work(broker: Broker | RemoteBroker) -> None:
        at = utc(system_clock.time() + delay) if delay else None
        with progress_bar() as bar, interrupts() as signals:
            task = bar.add_task("sending", total=len(bodies), visible=len(bodies) > _BATCH)
            for batch in _batches(bodies):
                if signals.count:
                    break
                if isinstance(broker, RemoteBroker):
                    sent.add_view(await broker.send_all(queue, list(map(message, batch)), delay))
                else:
                    sent.add(await broker.apply(*_sends(queue, map(message, batch), at)))
                sent.left -= len(batch)
                bar.advance(task, len(batch))

    with_broker(connection, work)
    if connection.as_json:
        console.print_json(sent.view())
    else:
        console.say(str(sent))
    if sent.left:
        raise typer.Exit(int(ExitStatus.INTERRUPTED))


def _sends(queue: str, messages: Iterable[Message], at: datetime | None) -> list[Send]:
    return [Send(queue, message, at) for message in messages]


def _batches(bodies: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = iter(bodies)
    while batch := list(islice(rest, _BATCH)):
        yield batch


# --- removing, and sending dead letters again


def purge(connection: BrokerConnection, queue: str, *, yes: bool, noun: str, numbers: list[int] | None = None) -> None:
    """Remove every message that can be received from a queue, or those with certain numbers.

    Args:
        connection: where the queue is.
        queue: its name.
        yes: whether not to ask.
        noun: what its messages are called.
        numbers: which; None: all.
    """
    total = len(numbers) if numbers else with_broker(connection, lambda broker: broker.inspect(queue)).ready
    confirm(f"Remove {count(total, noun)} from {queue} for good?", yes=yes or not total)
    done = _run(
        connection,
        "removing",
        total,
        lambda broker, on_progress: broker.purge(queue, sequences=numbers or None, on_progress=on_progress),
        AuditedChange("messages.purge", f"queue:{queue}"),
    )
    if connection.as_json:
        console.print_json(views.purged_view(queue, done.count, interrupted=done.is_interrupted))
    else:
        console.say(f"removed {count(done.count, noun)} from {queue}{done.ending}")
    done.check()


@dataclass(frozen=True, slots=True)
class ResubmitWords:
    """How a command calls what it does with dead letters.

    Attributes:
        question: asks before; ``{}`` stands for how many there are.
        bar: stands beside the progress bar.
        done: says afterwards; ``{}`` stands for how many there were.
        noun: what they are called.
    """

    question: str
    bar: str
    done: str
    noun: str = "dead letter"


def replay_words(route: str) -> ResubmitWords:
    """Return what a command calls sending the dead legs of a route again."""
    return ResubmitWords(f"Replay {{}} on route {route}?", "replaying", f"replayed {{}} on route {route}", "dead event")


def resubmit(
    connection: BrokerConnection,
    queue: str,
    *,
    max_messages: int | None,
    yes: bool,
    words: ResubmitWords | None = None,
    numbers: list[int] | None = None,
) -> None:
    """Send a queue's dead letters to it again.

    Args:
        connection: where the queue is.
        queue: its name.
        max_messages: how many at most; None: all.
        yes: whether not to ask.
        words: how the command calls that.
        numbers: which; None: all.
    """
    words = words or ResubmitWords(f"Send {{}} to {queue} again?", "resubmitting", f"resubmitted {{}} to {queue}")
    dead = len(numbers) if numbers else with_broker(connection, lambda broker: broker.inspect(queue)).dead
    total = dead if max_messages is None else min(dead, max_messages)
    confirm(words.question.format(count(total, words.noun)), yes=yes or not total)
    done = _run(
        connection,
        words.bar,
        total,
        lambda broker, on_progress: broker.resubmit(
            queue, max_messages=max_messages, sequences=numbers or None, on_progress=on_progress
        ),
        AuditedChange("messages.resubmit", f"queue:{queue}"),
    )
    result = done.count if isinstance(done.count, Resubmitted) else Resubmitted(done.count)
    if connection.as_json:
        console.print_json(views.resubmitted_view(queue, result, interrupted=done.is_interrupted))
        done.check()
    else:
        console.say(words.done.format(count(int(result), words.noun)) + done.ending)
        done.check()
        _print_rest(queue, result)
    if result.stayed:
        raise typer.Exit(int(ExitStatus.NOT_ALL))


def _print_rest(queue: str, result: Resubmitted) -> None:
    """Print which dead letters were not sent, and why."""
    if result.stayed:
        stayed = len(result.stayed)
        others = len({each.reason for each in result.stayed}) - 1
        more = f"; and for {count(others, 'other reason')}, see --json" if others else ""
        reason = one_line(result.stayed[0].reason)
        console.warn(f"{stayed:,} of {stayed + result:,} {verb(stayed, 'stays')}: {reason}{more}")
    if result.locked:
        until = "" if result.locked_until is None else f" until {instant(result.locked_until)}"
        locked = f"{result.locked:,} {verb(result.locked, 'is')} locked by another consumer{until}"
        console.warn(f"{locked}; try again then, or see them: redrive peek '{dead_letter_queue(queue)}'")


@dataclass(frozen=True, slots=True)
class _Done:
    """How far bulk work came, and whether Ctrl-C stopped it."""

    count: int
    is_interrupted: bool

    @property
    def ending(self) -> str:
        """What to add to a sentence about it."""
        return "; stopped before the end" if self.is_interrupted else ""

    def check(self) -> None:
        """End the command if it was stopped."""
        if self.is_interrupted:
            raise typer.Exit(int(ExitStatus.INTERRUPTED))


class _Interrupted(Exception):
    """Ends bulk work between two of its pages."""


def _run(
    connection: BrokerConnection,
    name: str,
    total: int,
    do: Callable[[Broker, Callable[[int], None]], Awaitable[int]],
    change: AuditedChange,
) -> _Done:
    """Do bulk work with a progress bar; Ctrl-C ends it after the page it is at."""

    async def work(broker: Broker) -> _Done:
        count = 0
        with progress_bar() as bar, interrupts() as signals:
            task = bar.add_task(name, total=total)

            def on_progress(done: int) -> None:
                nonlocal count
                count = done
                bar.update(task, completed=done)
                if signals.count:
                    raise _Interrupted

            try:
                return _Done(await do(broker, on_progress), is_interrupted=False)
            except _Interrupted:
                return _Done(count, is_interrupted=True)

    return with_broker(connection, work, change=change)
