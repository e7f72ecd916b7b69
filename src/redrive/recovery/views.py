# SPDX-License-Identifier: MIT
"""Failed messages and operations as JSON: what the command line prints and an HTTP API returns. Pure: no I/O, no clock.

A view is made of texts, numbers, booleans, None, lists and dicts. Times are texts in ISO 8601; states are words.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from redrive.broker.views import View, message_view, received_view
from redrive.recovery.arrivals import SetAside
from redrive.recovery.dry_run import DryRun
from redrive.recovery.filter import Filter
from redrive.recovery.group_state import GroupState
from redrive.recovery.operation import Operation
from redrive.recovery.records import (
    AuditEntry,
    CountDifference,
    FailedDetail,
    FailedMessage,
    GroupInfo,
    LaneInfo,
    Note,
    Part,
    ServiceInfo,
)
from redrive.recovery.states import Status

if TYPE_CHECKING:
    from redrive.recovery.preview import Preview

Record: TypeAlias = (
    FailedMessage | GroupInfo | GroupState | CountDifference | Note | Part | AuditEntry | ServiceInfo | LaneInfo
)
"""What the ledger returns in lists; its view has its fields."""


def record_view(record: Record) -> View:
    """Return one record of the ledger, field by field."""
    return _object(record)


def records_view(records: Iterable[Record]) -> list[View]:
    """Return a page of records."""
    return [record_view(each) for each in records]


def detail_view(detail: FailedDetail) -> View:
    """Return everything about a failed message."""
    return {
        **record_view(detail.summary),
        "message": message_view(detail.message),
        "attempts_kept": [
            {"failed_at": each.failed_at.isoformat(), "operation": each.operation, **each.details}
            for each in detail.attempts
        ],
        "operations": records_view(detail.parts),
        "notes": records_view(detail.notes),
    }


def operation_view(operation: Operation) -> View:
    """Return an operation: its fields, its filter as a text, and its plan as it is stored."""
    own = {each.name: _plain(getattr(operation, each.name)) for each in fields(operation) if each.name != "plan"}
    kind = operation.plan.kind.value
    return {
        "number": operation.number,
        "kind": kind,
        **own,
        "filter": str(operation.plan.filter),
        "plan": operation.plan.to_json(),
    }


def operation_detail_view(operation: Operation, notes: Iterable[Note], parts: Iterable[Part] | None) -> View:
    """Return an operation with its notes and, if they were asked for, its messages."""
    messages = {} if parts is None else {"messages": records_view(parts)}
    return {**operation_view(operation), "notes": records_view(notes), **messages}


def group_state_view(id: str, state: GroupState) -> View:  # noqa: A002 - it is called that everywhere
    """Return what people decided about a group."""
    return {"id": id, **record_view(state)}


def set_aside_view(aside: SetAside) -> View:
    """Return a message that could not be read as a failure."""
    return {
        "number": aside.number,
        "reason": aside.reason,
        "at": aside.at and aside.at.isoformat(),
        "message": received_view(aside.received),
    }


def dry_run_view(
    found: DryRun,
    chosen: Filter | None,
    previews: "Iterable[Preview]",
    unread: Mapping[str, int],
    destinations: Iterable[View] = (),
) -> View:
    """Return what an operation would find.

    Args:
        found: the messages it would find.
        chosen: the filter, if there is one.
        previews: what would change about the first messages.
        unread: how many failures are not in the store yet, by the queue they are in.
        destinations: how the queues are doing that messages would go to.
    """
    return {
        **_object(found),
        "filter": None if chosen is None else str(chosen),
        "previews": [_object(each) for each in previews],
        "unread": dict(unread),
        "destinations": list(destinations),
    }


def previews_view(previews: "Iterable[Preview]") -> View:
    """Return what a transform would change about messages."""
    return {"previews": [_object(each) for each in previews]}


# --- what came of a request


def count_view(count: int, most: int | None = None) -> View:
    """Return how many failed messages match; if it was counted up to a limit and there are more, it says so."""
    return {"count": count} if most is None or count <= most else {"count": most, "more": True}


def count_by_status_view(counts: Mapping[Status, int]) -> View:
    """Return how many failed messages of each status match."""
    return {status.word: count for status, count in counts.items()}


def count_check_view(differences: Iterable[CountDifference], *, is_repaired: bool) -> View:
    """Return which stored counts of failed messages were wrong, and whether they were repaired."""
    found = records_view(differences)
    return {"differences": found, "is_repaired": bool(found) and is_repaired}


def ingest_view(read: int, set_aside: int, sources: Iterable[str]) -> View:
    """Return how many failures were read from queues into the store."""
    return {"read": read, "set_aside": set_aside, "sources": list(sources)}


def reimport_view(read: int, left: int) -> View:
    """Return how many messages that had been set aside could be read this time."""
    return {"read": read, "left": left}


def sweep_view(deleted: int) -> View:
    """Return how many records were deleted because of their age."""
    return {"deleted": deleted}


def note_removed_view(number: int) -> View:
    """Return that a note was removed."""
    return {"note": number, "removed": True}


def redirect_view(queue: str, to: str | None) -> View:
    """Return where failed messages of a queue go; ``to`` is None if they go to the queue they failed in."""
    return {"from": queue, "to": to}


def redirects_view(redirects: Mapping[str, str]) -> list[View]:
    """Return all redirects."""
    return [redirect_view(queue, to) for queue, to in redirects.items()]


# --- values


@cache
def _fields_of(kind: type) -> tuple[tuple[str, ...], Callable[[object], tuple[object, ...]]]:
    """Return the names of a record's fields, and what gets all their values at once."""
    names = tuple(each.name for each in fields(kind))
    return names, attrgetter(*names) if len(names) > 1 else lambda value: tuple(getattr(value, name) for name in names)


def _object(value: object) -> View:
    names, values = _fields_of(type(value))  # type: ignore[arg-type]  # mypy does not see that classes can be keys
    return {name: _plain(each) for name, each in zip(names, values(value), strict=True)}


def _plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON has
    convert = _conversion(type(value))  # type: ignore[arg-type]  # as above
    return value if convert is None else convert(value)


@cache
def _conversion(kind: type) -> Callable[[Any], Any] | None:  # a list has thousands of values, of few types
    """Return how values of a type become what JSON has; None: they are that already."""
    if issubclass(kind, Enum):
        return lambda value: getattr(value, "word", value.value)
    if issubclass(kind, datetime):
        return datetime.isoformat
    if is_dataclass(kind):
        return _object
    if issubclass(kind, Mapping):
        return lambda value: {str(_plain(name)): _plain(each) for name, each in value.items()}
    if issubclass(kind, Sequence) and not issubclass(kind, str | bytes):
        return lambda value: [_plain(each) for each in value]
    return None
