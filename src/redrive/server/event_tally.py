# SPDX-License-Identifier: MIT
"""What one process tells another about its telemetry events: how many there were, how long they took, what changed."""

from collections import Counter, defaultdict
from collections.abc import Collection
from typing import Any, Final

from redrive import pipeline, recovery, routes
from redrive.broker.views import View
from redrive.server.topics import EVERYTHING, topics_of
from redrive.telemetry import Event

_MOST_TOPICS: Final = 256
_MOST_SECONDS: Final = 10_000


def event_kinds() -> list[type[Event]]:
    """Return the events of recovery, routes and pipelines that have a name of their own."""
    packages = (recovery, routes, pipeline)
    found = [vars(package)[name] for package in packages for name in package.__all__]
    kinds = [kind for kind in found if isinstance(kind, type)]
    return [kind for kind in kinds if issubclass(kind, Event) and "name" in vars(kind) and kind is not Event]


def labels_of(event: Event) -> tuple[str, ...]:
    """Return what an event is counted by."""
    return tuple(str(getattr(event, name)) for name in event.labels)


def seconds_of(event: Event) -> list[tuple[str, float]]:
    """Return the lengths of time that an event knows, by the name of their field."""
    found = [(field, getattr(event, field)) for field in event.histograms]
    return [(field, float(seconds)) for field, seconds in found if isinstance(seconds, int | float)]


class EventTally:
    """Telemetry events since the last report of them.

    It stays small however many there are, and however long the other process does not listen: events are counted by
    their labels, topics are a set. Of lengths of time it keeps 10,000; the counts are exact.

    Args:
        kinds: the kinds of events that are counted.
    """

    def __init__(self, kinds: Collection[type[Event]]) -> None:
        self._kinds = frozenset(kinds)
        self._counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self._seconds: defaultdict[tuple[str, str, tuple[str, ...]], list[float]] = defaultdict(list)
        self._kept = 0
        self._topics: set[str] = set()

    def note(self, event: Event) -> None:
        """Count an event."""
        if len(self._topics) <= _MOST_TOPICS:
            self._topics.update(topics_of(event))
        if type(event) not in self._kinds:
            return
        labels = labels_of(event)
        self._counts[event.name, labels] += 1
        for field, seconds in seconds_of(event):
            if self._kept < _MOST_SECONDS:
                self._seconds[event.name, field, labels].append(seconds)
                self._kept += 1

    def take(self) -> View | None:
        """Return what there is to tell, as JSON has it, and begin anew; None: nothing."""
        if not self._counts and not self._topics:
            return None
        taken: dict[str, Any] = {
            "counts": [[name, labels, count] for (name, labels), count in self._counts.items()],
            "seconds": [[*key, seconds] for key, seconds in self._seconds.items()],
            "topics": sorted(self._topics) if len(self._topics) <= _MOST_TOPICS else [EVERYTHING],
        }
        self._counts.clear()
        self._seconds.clear()
        self._topics.clear()
        self._kept = 0
        return taken
