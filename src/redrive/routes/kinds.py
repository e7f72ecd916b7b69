# SPDX-License-Identifier: MIT
"""Which kinds of receivers, filters and senders there are, by the names that files use.

A kind is loaded when it is used. A program adds its own with ``add_kind``. Packages add kinds with entry points in the
groups ``redrive.receivers``, ``redrive.filters`` and ``redrive.senders``: the name of the entry point is the kind, and
its object the class.
"""

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeVar

from redrive.errors import InvalidSetting, UsageError
from redrive.routes.parts import EventFilter, EventReceiver, EventSender, OutsideFilter, RoutePart, Table

P = TypeVar("P", bound=RoutePart)

_OWN: Final = {
    "receivers": {
        "debug": "debug:DebugReceiver",
        "http": "http:HttpReceiver",
        "nats": "jetstream:JetStreamReceiver",
        "queue": "queue:QueueReceiver",
        "redis": "redis_stream:RedisStreamReceiver",
        "tail": "tail:FileTailReceiver",
        "timer": "timer:TimerReceiver",
        "topic": "topic:TopicReceiver",
    },
    "filters": {
        "call": "python:PythonCallFilter",
        "dedup": "dedup:DedupFilter",
        "enrich": "enrich:EnrichFilter",
        "hash": "hash:HashFilter",
        "log": "log:LogFilter",
        "match": "match:MatchFilter",
        "metric": "metric:MetricFilter",
        "python": "python:PythonFilter",
        "regex": "regex:RegexFilter",
        "sample": "sample:SampleFilter",
        "split": "split:SplitFilter",
        "transform": "transform:TransformFilter",
        "ttl": "ttl:TtlFilter",
        "unwrap": "unwrap:UnwrapFilter",
    },
    "senders": {
        "debug": "debug:DebugSender",
        "file": "file:FileSender",
        "log": "log:LogSender",
        "nats": "jetstream:JetStreamSender",
        "queue": "queue:QueueSender",
        "redis": "redis_stream:RedisStreamSender",
        "topic": "topic:TopicSender",
        "webhook": "webhook:WebhookSender",
    },
}
_CLASSES: Final[dict[str, tuple[type[RoutePart], ...]]] = {
    "receivers": (EventReceiver,),
    "filters": (EventFilter, OutsideFilter),
    "senders": (EventSender,),
}


_programs: Final[dict[str, dict[str, type[RoutePart]]]] = {"receivers": {}, "filters": {}, "senders": {}}


def add_kind(part: type[P]) -> type[P]:
    """Make a class of this program known by its ``kind``, so that routes can be stored and read; for use as decorator.

    Every process that runs such a route must have added the kind.
    """
    group = next((name for name, classes in _CLASSES.items() if issubclass(part, classes)), None)
    if group is None or not isinstance(part.kind, str) or not part.kind:
        raise UsageError(f"{part!r} must be an EventReceiver, EventFilter, OutsideFilter or EventSender with a kind")
    if part.kind in _OWN[group]:
        raise UsageError(f"{part.kind!r} is a kind of Redrive's own {group}; choose another name")
    _programs[group][part.kind] = part
    return part


def receiver_of(table: Table) -> EventReceiver:
    """Return the receiver that a table describes."""
    return _part_of("receivers", table)  # type: ignore[return-value]  # its class was checked


def filter_of(table: Table) -> EventFilter | OutsideFilter:
    """Return the filter that a table describes."""
    return _part_of("filters", table)  # type: ignore[return-value]  # its class was checked


def sender_of(table: Table) -> EventSender:
    """Return the sender that a table describes."""
    return _part_of("senders", table)  # type: ignore[return-value]  # its class was checked


def kinds(group: str) -> tuple[str, ...]:
    """Return the names of all kinds of ``receivers``, ``filters`` or ``senders``."""
    return tuple(sorted({*_OWN[group], *_programs[group], *_added(group)}))


def class_of(group: str, kind: str) -> type[RoutePart]:
    """Return the class of a kind.

    Raises:
        InvalidSetting: there is no such kind.
        UsageError: a package has added it, and it cannot be loaded, or is no part of a route.
    """
    if kind in _OWN[group]:
        module, _, name = _OWN[group][kind].partition(":")
        own: type[RoutePart] = getattr(import_module(f"redrive.routes.{group}.{module}"), name)
        return own
    if kind in _programs[group]:
        return _programs[group][kind]
    if kind not in _added(group):
        raise _unknown(group, kind)
    try:
        found = _added(group)[kind].load()
    except Exception as error:
        problem = f"the entry point {kind!r} of redrive.{group} cannot be loaded: {type(error).__name__}: {error}"
        raise UsageError(problem) from error
    if not isinstance(found, type) or not issubclass(found, _CLASSES[group]):
        wanted = " or ".join(each.__name__ for each in _CLASSES[group])
        raise UsageError(f"the entry point {kind!r} of redrive.{group} is {found!r}; it must be a class of {wanted}")
    return found


def _part_of(group: str, table: Table) -> RoutePart:
    if not isinstance(table, dict) or not isinstance(table.get("kind"), str):
        raise InvalidSetting("kind", table, f"must be a table with a kind, one of: {', '.join(kinds(group))}")
    return class_of(group, table["kind"]).from_table(table)


def _unknown(group: str, kind: str) -> InvalidSetting:
    from difflib import get_close_matches

    near = get_close_matches(kind, kinds(group), 1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return InvalidSetting("kind", kind, f"is no kind of {group}; {meant}There are: {', '.join(kinds(group))}")


@cache
def _added(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"redrive.{group}")}
