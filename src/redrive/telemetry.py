# SPDX-License-Identifier: MIT
"""What an event is, and where events go. Each layer has its own events, in its ``events.py``.

An event is a value; its fields are an API. By default it goes to ``logging`` (loggers below ``redrive``), and to
OpenTelemetry in programs that use it: as an event on the current span, and as metrics. A callback gets it as it is.
"""

import logging
import sys
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from redrive.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from opentelemetry.metrics import Counter, Histogram
    from opentelemetry.util.types import AttributeValue

__all__ = ["Event"]

logger = logging.getLogger("redrive")
# A library must not log until the program configures logging; without this, Python prints its logs to stderr.
logger.addHandler(logging.NullHandler())

_LONGEST_TEXT = 2_000


@dataclass(frozen=True, slots=True)
class Event:
    """The base of all events.

    Its text is one line of at most 2,000 characters, whatever is in its fields: they come from messages and exceptions,
    and must not be able to forge a line of a log. The fields themselves stay as they are.

    Attributes:
        name: its name in logs and traces.
        level: the logging level.
        labels: the fields that distinguish the time series of a metric. A label has few values: the name of a
            queue or of a state, never an id, a number or the text of an exception.
        histograms: fields with a length of time, in seconds, and the names of the metrics that collect them.
    """

    name: ClassVar[str] = "redrive.event"
    level: ClassVar[int] = logging.INFO
    labels: ClassVar[tuple[str, ...]] = ()
    histograms: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def __init_subclass__(cls) -> None:
        sentence = cls.__dict__.get("__str__")
        if sentence is not None:  # here, so that every event has it
            cls.__str__ = lambda self: one_line(sentence(self), _LONGEST_TEXT)  # type: ignore[method-assign]

    @property
    def layer(self) -> str:
        """The logger and the metrics it goes to, such as ``redrive.retry``."""
        return self.name.rpartition(".")[0]

    def fields(self) -> dict[str, object]:
        """Return the fields by name."""
        found = {name: getattr(self, name) for name in _names_of(type(self))}  # type: ignore[arg-type]  # a class is hashable
        return found if _PLAIN.issuperset(map(type, found.values())) else asdict(self)


_PLAIN = frozenset({str, int, float, bool, type(None), datetime})
"""Nothing that could be changed later, so it need not be copied."""


@cache
def _names_of(event: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(event))


def log_to_stderr() -> None:
    """Show the log of a program that runs until it is stopped, unless the program has configured logging itself."""
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def is_traced() -> bool:
    """Say whether the program uses OpenTelemetry."""
    return _TRACE in sys.modules


_observer: "ContextVar[Callable[[Event], object] | None]" = ContextVar("redrive_observer", default=None)


@contextmanager
def observed_by(observer: "Callable[[Event], object]") -> "Generator[None]":
    """Let a function get every event that is reported inside a ``with`` block, or in tasks that it begins."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        with suppress(ValueError):  # the block was closed from another context
            _observer.reset(token)


def is_observed() -> bool:
    """Say whether a function gets the events that are reported here."""
    return _observer.get() is not None


def report(event: Event, on_event: "Callable[[Event], object] | None" = None) -> None:
    """Report an event to logging, OpenTelemetry and the callback. A failure of one is logged and has no effect."""
    for observe in (_log, _trace, on_event, _observer.get()):
        try:
            if observe is not None:
                observe(event)
        except Exception:
            logger.exception("an observer of %s failed; the operation goes on", event.name)


def is_reported(kind: type[Event], on_event: "Callable[[Event], object] | None" = None) -> bool:
    """Say whether anything gets events of a kind: to make thousands for nothing takes a while."""
    if on_event is not None or _observer.get() is not None or is_traced():
        return True
    layer = _logger(kind.name.rpartition(".")[0])
    return layer.isEnabledFor(kind.level) and _is_heard(layer)


@cache
def _logger(layer: str) -> logging.Logger:
    return logging.getLogger(layer)


def _log(event: Event) -> None:
    layer = _logger(event.layer)
    if layer.isEnabledFor(event.level) and _is_heard(layer):
        layer.log(event.level, "%s", event, extra={"redrive_event": event.name, "redrive": event.fields()})


def _is_heard(layer: logging.Logger) -> bool:
    """Say whether anything gets what is logged there: to make a record that nothing gets takes 10 µs."""
    if type(layer) is not logging.Logger or layer.filters:
        return True  # a class or a filter of the program's own may count what it sees
    at: logging.Logger | None = layer
    has_handler = False
    while at is not None:
        for handler in at.handlers:
            if type(handler) is not logging.NullHandler:
                return True
            has_handler = True
        at = at.parent if at.propagate else None
    return not has_handler  # then Python prints it


_TRACE = "opentelemetry.trace"
"""Only a program that has imported it can have an exporter; so this module never imports it first."""


def _trace(event: Event) -> None:
    if not is_traced():
        return
    from opentelemetry import trace

    attributes = {name: _as_attribute(value) for name, value in event.fields().items() if value is not None}
    trace.get_current_span().add_event(event.name, {f"redrive.{name}": value for name, value in attributes.items()})
    labels = {name: attributes[name] for name in event.labels if name in attributes}
    _counter(f"{event.layer}.events").add(1, {"event": event.name, **labels})
    for field, metric in event.histograms.items():
        if isinstance(seconds := attributes.get(field), float | int):
            _histogram(metric).record(seconds, labels)


@cache
def _counter(name: str) -> "Counter":
    from opentelemetry import metrics

    return metrics.get_meter("redrive").create_counter(name, description="What this layer of Redrive reported")


@cache
def _histogram(name: str) -> "Histogram":
    from opentelemetry import metrics

    return metrics.get_meter("redrive").create_histogram(name, unit="s")


def _as_attribute(value: object) -> "AttributeValue":
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str | bool | int | float) else str(value)
