# SPDX-License-Identifier: MIT
"""What the history knows: topics, metrics, and how the numbers of several minutes make one. Pure: no I/O, no clock."""

from dataclasses import dataclass
from typing import Final

from redrive.broker import tallies
from redrive.errors import InvalidSetting

READY: Final = "ready"
SCHEDULED: Final = "scheduled"
LOCKED: Final = "locked"
DEAD_LETTERS: Final = "dead_letters"
OLDEST_AGE: Final = "oldest_age"
LAG: Final = "lag"

STORE: Final = "store"
"""The topic of what is known about the store itself."""
GAUGED: Final = "gauged"
"""Of the store: in how many minutes depths were noted. So a minute without a process is no empty queue."""

TOPICS: Final = (*(tallies.QUEUE, tallies.GROUP, tallies.ROUTE, tallies.DESTINATION, tallies.LANE, tallies.CALL),)


@dataclass(frozen=True, slots=True)
class Metric:
    """Something that is counted, or noted once a minute.

    Attributes:
        name: its name.
        is_gauge: whether it is a level that was noted, not a number of events; of several minutes, the highest counts.
        is_age: whether it is a length of time: then of several queues, too, the highest counts.
    """

    name: str
    is_gauge: bool = False
    is_age: bool = False


_COUNTED = (
    *(tallies.SENT, tallies.DELIVERED, tallies.REDELIVERED, tallies.COMPLETED, tallies.ABANDONED, tallies.EXPIRED),
    *(tallies.DEAD, tallies.FAILED, tallies.RECOVERED, tallies.FAILED_AGAIN, tallies.RETRIED, tallies.UNKNOWN),
    *(tallies.FILTERED, GAUGED),
)
_NOTED = (READY, SCHEDULED, LOCKED, DEAD_LETTERS, LAG)
METRICS: Final = {
    **{name: Metric(name) for name in _COUNTED},
    **{name: Metric(name, is_gauge=True) for name in _NOTED},
    OLDEST_AGE: Metric(OLDEST_AGE, is_gauge=True, is_age=True),
}
NAMES: Final = tuple(name for name in METRICS if name != GAUGED)
GAUGES: Final = tuple(name for name, metric in METRICS.items() if metric.is_gauge)


def metric(name: object) -> Metric:
    """Return a metric by its name.

    Raises:
        InvalidSetting: there is none.
    """
    if isinstance(name, str) and name in NAMES:
        return METRICS[name]
    raise InvalidSetting("metric", name, f"must be one of {', '.join(NAMES)}")


def check_topic(name: object) -> str:
    """Return a topic.

    Raises:
        InvalidSetting: there is none of that name.
    """
    if isinstance(name, str) and name in TOPICS:
        return name
    raise InvalidSetting("topic", name, f"must be one of {', '.join(TOPICS)}")
