# SPDX-License-Identifier: MIT
"""Which kinds of receivers, filters and senders there are, by the names that files use.

A kind is loaded when it is used. A program adds its own with ``add_kind``. Packages add kinds with entry points in the
groups ``redrive.receivers``, ``redrive.filters`` and ``redrive.senders``: the name of the entry point is the kind, and
its object the class.
"""

from typing import Any, Final, TypeVar

from redrive.errors import UsageError
from redrive.parts import PartKinds
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
_receivers: Final = PartKinds("receivers", "redrive.routes.receivers", _OWN["receivers"], EventReceiver)
_filters: Final = PartKinds[EventFilter | OutsideFilter](
    "filters", "redrive.routes.filters", _OWN["filters"], EventFilter, OutsideFilter
)
_senders: Final = PartKinds("senders", "redrive.routes.senders", _OWN["senders"], EventSender)
_groups: Final[dict[str, PartKinds[Any]]] = {"receivers": _receivers, "filters": _filters, "senders": _senders}


def add_kind(part: type[P]) -> type[P]:
    """Make a class of this program known by its ``kind``, so that routes can be stored and read; for use as decorator.

    Every process that runs such a route must have added the kind.
    """
    group = next((each for each in _groups.values() if each.holds(part)), None)
    if group is None or not isinstance(part.kind, str) or not part.kind:
        raise UsageError(f"{part!r} must be an EventReceiver, EventFilter, OutsideFilter or EventSender with a kind")
    group.add(part)
    return part


def receiver_of(table: Table) -> EventReceiver:
    """Return the receiver that a table describes."""
    return _receivers.part_of(table)


def filter_of(table: Table) -> EventFilter | OutsideFilter:
    """Return the filter that a table describes."""
    return _filters.part_of(table)


def sender_of(table: Table) -> EventSender:
    """Return the sender that a table describes."""
    return _senders.part_of(table)


def kinds(group: str) -> tuple[str, ...]:
    """Return the names of all kinds of ``receivers``, ``filters`` or ``senders``."""
    return _groups[group].names()


def class_of(group: str, kind: str) -> type[RoutePart]:
    """Return the class of a kind.

    Raises:
        InvalidSetting: there is no such kind.
        UsageError: a package has added it, and it cannot be loaded, or is no part of a route.
    """
    found: type[RoutePart] = _groups[group].class_of(kind)
    return found
