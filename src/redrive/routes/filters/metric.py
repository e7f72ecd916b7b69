# SPDX-License-Identifier: MIT
"""The filter that counts events, or measures a value of theirs, in OpenTelemetry."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from redrive.broker import Message
from redrive.errors import InvalidSetting, MessageError
from redrive.routes.event_values import EventValues, PathSetting
from redrive.routes.parts import EventFilter, LegFacts, TableSetting, TextSetting, setting
from redrive.telemetry import is_traced

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram
    from opentelemetry.util.types import AttributeValue

logger = logging.getLogger("redrive.routes.events")

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\-/]{0,254}")
"""What OpenTelemetry accepts as the name of a metric."""


@dataclass(frozen=True, slots=True)
class MetricFilter(EventFilter):
    """Counts an event, or records a value of it in a histogram, and passes it.

    It does nothing in a program that does not use OpenTelemetry. It never stops an event: what cannot be measured, such
    as a value that is no number, is logged and not recorded. A replay is counted again.
    """

    kind: ClassVar[str] = "metric"

    name: str = setting(TextSetting("must be the name of a metric"), "the name of the metric: orders.received")
    labels: tuple[tuple[str, str], ...] = setting(
        TableSetting(PathSetting()),
        "a JMESPath for each label: {region: headers.region}; application and route are always added. "
        "Choose what has few values: each combination is a time series",
        (),
    )
    value: str | None = setting(
        PathSetting(), "a JMESPath to a number, which a histogram records; without it, events are counted", None
    )

    def check(self) -> None:
        """See that OpenTelemetry accepts the name."""
        if not _NAME.fullmatch(self.name):
            allowed = "must be a letter, and up to 254 letters, digits, '_', '.', '-' and '/'"
            raise InvalidSetting("name", self.name, allowed)

    def apply(self, message: Message, leg: LegFacts) -> Sequence[Message]:
        """Count the event; return it."""
        if is_traced():
            try:
                self._record(EventValues(message), leg)
            except MessageError as error:
                logger.warning("metric %r cannot be recorded for event %r: %s", self.name, leg.event_id, error)
        return (message,)

    def _record(self, values: EventValues, leg: LegFacts) -> None:
        found = {name: values.at(path) for name, path in self.labels}
        labels: dict[str, AttributeValue] = {name: _label(value) for name, value in found.items() if value is not None}
        labels |= {"application": leg.application, "route": leg.route}
        if self.value is None:
            _counter(self.name).add(1, labels)
            return
        number = values.required(self.value)
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise MessageError(f"{self.value} is no number")
        _histogram(self.name).record(number, labels)


def _label(value: object) -> "AttributeValue":
    return value if isinstance(value, str | bool | int | float) else str(value)


@cache
def _counter(name: str) -> "Counter":
    from opentelemetry import metrics

    return metrics.get_meter("redrive").create_counter(name, description="Events that passed a metric filter")


@cache
def _histogram(name: str) -> "Histogram":
    from opentelemetry import metrics

    return metrics.get_meter("redrive").create_histogram(name)
