# SPDX-License-Identifier: MIT
"""What needs a person, first: rules over facts, each with a sentence and the thing it is about. Pure: no I/O, no clock.

A rule says what, how many, since when. The thing it is about is a subject such as ``group:1f3a``, ``operation:128`` or
``queue:orders``: a console makes a link of it, and the command line a command.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from redrive import duration, number
from redrive.attention.facts import Facts, GroupFact
from redrive.printable import one_line
from redrive.recovery import Kind, Operation, OperationState

_LONGEST_TITLE: Final = 120
_MOST_WAITING: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """From when on something needs a person. Lengths of time are seconds.

    Attributes:
        lately_s: what counts as the last while.
        rising_times: a group rises if that many times its usual number failed in the last while,
        rising_least: and at least that many.
        new_s: for how long a group is new.
        waiting_least: from how many unresolved failures on a group waits for a decision, however old it is.
        unconfirmed_s: how long after an operation has ended its messages may be unconfirmed.
        unread_s: how long messages may wait in a queue from which nothing is received.
        overdue_s: how late the work of a pipeline may be.
    """

    lately_s: float = 600.0
    rising_times: float = 4.0
    rising_least: int = 20
    new_s: float = 3_600.0
    waiting_least: int = 20
    unconfirmed_s: float = 1_800.0
    unread_s: float = 600.0
    overdue_s: float = 600.0

    def __post_init__(self) -> None:
        for name in ("lately_s", "new_s", "unconfirmed_s", "unread_s", "overdue_s"):
            object.__setattr__(self, name, duration.seconds(name, getattr(self, name)))
        for name in ("rising_least", "waiting_least"):
            number.whole(name, getattr(self, name), 1, 1_000_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionItem:
    """Something that needs a person.

    Attributes:
        rule: which rule says so, such as ``group-rises``.
        subject: what it is about: ``group:1f3a``, ``operation:128``, ``queue:orders``, ``route:copy``,
            ``pipeline:bills``, ``asides``, ``services``.
        sentence: what a person reads.
        since: since when it is so, if that is known.
        count: how many messages it concerns.
    """

    rule: str
    subject: str
    sentence: str
    since: datetime | None
    count: int


Rule: TypeAlias = Callable[[Facts, Thresholds], Iterator[AttentionItem]]


def items_of(facts: Facts, thresholds: Thresholds | None = None) -> list[AttentionItem]:
    """Return what needs a person, the most urgent first."""
    limits = thresholds or Thresholds()
    return [item for rule in RULES for item in rule(facts, limits)]


def _rising(facts: Facts, limits: Thresholds) -> Iterator[AttentionItem]:
    for group in facts.groups:
        if _is_rising(group, limits) and not _is_new(group.first_failed_at, facts, limits):
            minutes = limits.lately_s / 60
            sentence = (
                f"{_title(group.title)}: {_many(group.lately, 'failure')} in the last {minutes:g} minutes,"
                f" usually {round(group.usual, 1):,g}; {group.count:,} unresolved"
            )
            yield AttentionItem(
                rule="group-rises",
                subject=f"group:{group.id}",
                sentence=sentence,
                since=group.first_failed_at,
                count=group.lately,
            )


def _new(facts: Facts, limits: Thresholds) -> Iterator[AttentionItem]:
    for group in facts.groups:
        if _is_new(group.first_failed_at, facts, limits):
            sentence = f"{_title(group.title)} is new: {_many(group.count, 'failure')}"
            yield AttentionItem(
                rule="new-group",
                subject=f"group:{group.id}",
                sentence=sentence,
                since=group.first_failed_at,
                count=group.count,
            )


def _waiting(facts: Facts, limits: Thresholds) -> Iterator[AttentionItem]:
    """Name the largest groups that are neither new nor rising: an hour after an incident no one may have looked yet."""
    waiting = [
        group
        for group in facts.groups
        if group.count >= limits.waiting_least
        and not _is_new(group.first_failed_at, facts, limits)
        and not _is_rising(group, limits)
    ]
    for group in sorted(waiting, key=lambda each: -each.count)[:_MOST_WAITING]:
        wait = "waits" if group.count == 1 else "wait"
        yield AttentionItem(
            rule="group-waits",
            subject=f"group:{group.id}",
            sentence=f"{_title(group.title)}: {_many(group.count, 'failure')} {wait} for a decision",
            since=group.first_failed_at,
            count=group.count,
        )


def _is_rising(group: GroupFact, limits: Thresholds) -> bool:
    return group.lately >= limits.rising_least and group.lately >= limits.rising_times * group.usual


def _is_new(first: datetime, facts: Facts, limits: Thresholds) -> bool:
    return (facts.now - first).total_seconds() < limits.new_s


def _stopped_by_canaries(facts: Facts, _limits: Thresholds) -> Iterator[AttentionItem]:
    for operation in facts.operations:
        if is_stopped_by_canaries(operation):
            sent, again = operation.progress.forwarded, operation.progress.failed_again
            sentence = (
                f"Operation {operation.number} is paused: {again:,} of {_many(sent, 'canary', 'canaries')} failed"
                f" again; {operation.progress.remaining:,} not sent"
            )
            yield _about(operation, "canaries-failed", sentence, operation.progress.remaining)


def is_stopped_by_canaries(operation: Operation) -> bool:
    """Say whether an operation waits for a person because of its canaries."""
    canary = operation.plan.canary
    is_paused = operation.state is OperationState.PAUSED and operation.progress.remaining > 0
    return is_paused and canary is not None and operation.progress.forwarded <= canary.count


def _ended_with_failures(facts: Facts, _limits: Thresholds) -> Iterator[AttentionItem]:
    for operation in facts.operations:
        bad = operation.progress.failed + operation.progress.failed_again
        if operation.is_over and bad and operation.acknowledged_by is None:
            outcomes = (
                (operation.progress.failed_again, "failed again"),
                (operation.progress.failed, "could not be sent"),
            )
            said = ", ".join(f"{number:,} {words}" for number, words in outcomes if number)
            total = operation.progress.total
            sentence = f"Operation {operation.number} is {operation.state.word}: {said}, of {total:,}"
            yield _about(operation, "operation-failed", sentence, bad)


def _unconfirmed(facts: Facts, limits: Thresholds) -> Iterator[AttentionItem]:
    for operation in facts.operations:
        ended, waiting = operation.ended_at, operation.progress.waiting
        if operation.plan.kind is not Kind.RECOVER or ended is None or not waiting:
            continue
        if (facts.now - ended).total_seconds() > limits.unconfirmed_s:
            what = f"{_many(waiting, 'message')} of operation {operation.number}"
            sentence = f"{what} {'is' if waiting == 1 else 'are'} sent and unconfirmed"
            yield _about(operation, "unconfirmed", sentence, waiting)


def _unread(facts: Facts, limits: Thresholds) -> Iterator[AttentionItem]:
    for queue in facts.queues:
        waits_s = 0.0 if queue.oldest_at is None else (facts.now - queue.oldest_at).total_seconds()
        if waits_s > limits.unread_s:
            minutes = limits.unread_s / 60
            wait = "waits" if queue.ready == 1 else "wait"
            sentence = (
                f"{_many(queue.ready, 'message')} {wait} in {queue.name}, and none was received for {minutes:g} minutes"
            )
            yield AttentionItem(
                rule="queue-unread",
                subject=f"queue:{queue.name}",
                sentence=one_line(sentence),
                since=queue.oldest_at,
                count=queue.ready,
            )


def _parked(facts: Facts, _limits: Thresholds) -> Iterator[AttentionItem]:
    for route in facts.routes:
        if not route.waiting:
            continue
        waiting = f"{_many(route.waiting, 'event')} {'waits' if route.waiting == 1 else 'wait'}"
        if route.state == "paused":
            why = f" ({route.reason})" if route.reason else ""
            sentence = f"Route {route.name} is paused{why}: {waiting}"
        elif route.failed and not route.sent:
            sentence = f"Route {route.name} delivers nothing: {_many(route.failed, 'attempt')} failed lately; {waiting}"
        else:
            continue
        yield AttentionItem(
            rule="route-parked",
            subject=f"route:{route.name}",
            sentence=one_line(sentence, 300),
            since=route.oldest_at,
            count=route.waiting,
        )


def _overdue(facts: Facts, _limits: Thresholds) -> Iterator[AttentionItem]:
    for pipeline in facts.pipelines:
        if pipeline.stuck:
            are = "is" if pipeline.stuck == 1 else "are"
            sentence = f"{_many(pipeline.stuck, 'task')} of pipeline {pipeline.name} {are} overdue or failed"
            yield AttentionItem(
                rule="pipeline-overdue",
                subject=f"pipeline:{pipeline.name}",
                sentence=one_line(sentence),
                since=pipeline.oldest_at,
                count=pipeline.stuck,
            )


def _set_aside(facts: Facts, _limits: Thresholds) -> Iterator[AttentionItem]:
    if facts.set_aside:
        sentence = (
            f"{_many(facts.set_aside, 'message')} could not be read as a failure, and {_is(facts.set_aside)} set aside"
        )
        yield AttentionItem(rule="set-aside", subject="asides", sentence=sentence, since=None, count=facts.set_aside)


def _unserved(facts: Facts, _limits: Thresholds) -> Iterator[AttentionItem]:
    at_work = [each for each in facts.operations if not each.is_over and each.state is not OperationState.PAUSED]
    if at_work and not facts.services:
        sentence = f"{_many(len(at_work), 'operation')} {_is(len(at_work))} under way, and no process serves recovery"
        since = min(each.requested_at for each in at_work)
        yield AttentionItem(rule="unserved", subject="services", sentence=sentence, since=since, count=len(at_work))


RULES: Final[Sequence[Rule]] = (
    _unserved,
    _stopped_by_canaries,
    _rising,
    _new,
    _waiting,
    _ended_with_failures,
    _unread,
    _parked,
    _overdue,
    _unconfirmed,
    _set_aside,
)
"""All rules, the most urgent first."""


def _about(operation: Operation, rule: str, sentence: str, count: int) -> AttentionItem:
    since = operation.ended_at or operation.started_at or operation.requested_at
    return AttentionItem(
        rule=rule, subject=f"operation:{operation.number}", sentence=sentence, since=since, count=count
    )


def _title(text: str) -> str:
    return one_line(text, _LONGEST_TITLE)


def _many(count: int, noun: str, plural: str = "") -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"
