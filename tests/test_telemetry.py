# SPDX-License-Identifier: MIT
"""An event of any layer is one line in logs, one count in metrics, and a value for callbacks."""

import dataclasses
import importlib
import json
import logging
import pkgutil
import subprocess
import sys
import typing
from datetime import UTC, datetime

import pytest

import redrive
from redrive.recovery.events import MessageFailed
from redrive.telemetry import Event, report
from tests.patience import PATIENCE_S

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def without_opentelemetry(monkeypatch):
    """Other tests may have imported it; here it is absent until a test says otherwise."""
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)


HOSTILE = "x\n2026-11-01 CRITICAL forged\r\x1b[2J\u202e\u2028\x85\x9b" + "y" * 5_000


def every_event():
    """Return all classes of events that Redrive has, wherever they are."""
    for module in pkgutil.walk_packages(redrive.__path__, "redrive."):
        if module.name.rpartition(".")[2] in ("events", "telemetry"):
            importlib.import_module(module.name)
    found, left = [], [Event]
    while left:
        each = left.pop()
        left += each.__subclasses__()
        if vars(sys.modules[each.__module__]).get(each.__name__) is each:  # not what slots=True made another one of
            found.append(each)
    return sorted((each for each in set(found) - {Event} if "name" in vars(each)), key=lambda each: each.name)


def hostile(event):
    """Return an event with a hostile text wherever there can be a text."""
    values = {"str": HOSTILE, "int": 7, "float": 1.5, "datetime": NOON, "bool": True, "tuple": (HOSTILE, HOSTILE)}
    hints = {name: str(getattr(hint, "__name__", hint)) for name, hint in typing.get_type_hints(event).items()}
    kinds = {each.name: hints[each.name] for each in dataclasses.fields(event)}
    return event(
        **{name: next(values[part] for part in kind.split(" | ") if part in values) for name, kind in kinds.items()}
    )


@pytest.mark.parametrize("event", every_event(), ids=lambda each: each.name)
def test_an_event_is_one_line_of_a_log_whatever_is_in_it(event, caplog):
    caplog.set_level(logging.DEBUG)
    made = hostile(event)
    report(made)
    text = caplog.records[0].getMessage()
    assert text == str(made)
    assert text.isprintable()
    assert 0 < len(text) <= 2_000
    assert caplog.records[0].redrive == made.fields(), "a program gets it as it is"


def test_every_layer_has_events_that_are_looked_at():
    layers = {each.name.rpartition(".")[0] for each in every_event()}
    assert layers >= {"redrive.retry", "redrive.worker", "redrive.recovery"}


def test_an_event_has_a_name_of_its_own():
    names = [each.name for each in every_event()]
    assert len(set(names)) == len(names)
    assert all(name.startswith("redrive.") for name in names)
    assert Event.name not in names


@pytest.mark.parametrize("event", every_event(), ids=lambda each: each.name)
def test_a_label_is_a_field_with_few_values(event):
    """Ids, numbers and texts of exceptions have no end, and each value would be a time series for ever."""
    kinds = {each.name: each.type for each in dataclasses.fields(event)}
    assert all(kinds[label] is str for label in event.labels)
    endless = {"id", "message_id", "request_id", "exception_message", "description", "reason", "why", "where", "actor"}
    assert endless.isdisjoint(event.labels)
    assert all(kinds[field] in (float, float | None) for field in event.histograms)


def test_all_events_of_a_worker_are_counted_by_queue():
    workers = [each for each in every_event() if each.name.startswith("redrive.worker.")]
    assert workers
    assert [each.name for each in workers if "queue" not in each.labels] == []


def test_an_exception_is_called_the_same_in_all_events():
    names = {field.name for each in every_event() for field in dataclasses.fields(each)}
    assert {name for name in names if "exception" in name or "error" in name} == {"exception_type", "exception_message"}


# --- OpenTelemetry ----------------------------------------------------------------------------------------------------


def run_python(program):
    """Run a program in a process of its own: providers of OpenTelemetry are set once in a process."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


WITH_THE_SDK = """
import json
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from redrive.retry import CircuitBreaker, Fixed, retry
from redrive.testing import ManualClock

exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
tracing = TracerProvider()
tracing.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(tracing)
metrics.set_meter_provider(MeterProvider([reader]))

calls = []
breaker = CircuitBreaker("api", failures=5)
@retry(on=ConnectionError, policy=Fixed(2.0, jitter="none", max_attempts=3), clock=ManualClock(),
       operation="fetch", request_id="r-1", breaker=breaker)
def fetch(failures):
    calls.append(1)
    if len(calls) <= failures:
        raise ConnectionError("down")

with trace.get_tracer("test").start_as_current_span("request"):
    fetch(2)
    calls.clear()
    try:
        fetch(99)
    except ConnectionError:
        pass

(span,) = exporter.get_finished_spans()
points = [
    (metric.name, dict(point.attributes), getattr(point, "value", None), getattr(point, "sum", None))
    for resource in reader.get_metrics_data().resource_metrics
    for scope in resource.scope_metrics
    for metric in scope.metrics
    for point in metric.data.data_points
]
print(json.dumps({"events": [(event.name, dict(event.attributes)) for event in span.events], "points": points}))
"""


SERIES = """
import json
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from redrive.recovery import OperationChanged
from redrive.telemetry import report
from redrive.worker import WorkerSlowed

reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
for number in range(5):
    report(OperationChanged(number, "recover", "running", "ana", ""))
    report(WorkerSlowed("orders" if number % 2 else "mails", number, 1.5))
(resource,) = reader.get_metrics_data().resource_metrics
(scope,) = resource.scope_metrics
print(json.dumps({
    each.name: [[dict(point.attributes), point.value] for point in each.data.data_points] for each in scope.metrics
}))
"""


def test_a_time_series_is_told_from_others_by_the_labels_of_its_event():
    """Operations are numbered without end; each with a series of its own would fill any store of metrics."""
    slowed = {"event": "redrive.worker.slowed"}
    assert run_python(SERIES) == {
        "redrive.recovery.events": [
            [{"event": "redrive.recovery.operation_changed", "kind": "recover", "state": "running"}, 5]
        ],
        "redrive.worker.events": [[slowed | {"queue": "mails"}, 3], [slowed | {"queue": "orders"}, 2]],
    }


def test_opentelemetry_gets_span_events_and_metrics():
    reported = run_python(WITH_THE_SDK)
    names = [name.removeprefix("redrive.retry.") for name, _ in reported["events"]]
    assert names == [*["attempt_failed"] * 2, "succeeded", *["attempt_failed"] * 3, "gave_up"]
    first = reported["events"][0][1]
    assert {key: first[key] for key in first if "operation_" not in key} == {
        "redrive.request_id": "r-1",
        "redrive.policy_type": "Fixed",
        "redrive.operation": "fetch",
        "redrive.iteration": 1,
        "redrive.iteration_sleep": 2.0,
        "redrive.exception_type": "ConnectionError",
        "redrive.exception_message": "down",
    }
    assert first["redrive.operation_start"] == "2026-01-04T00:00:00+00:00"
    assert "redrive.iteration_sleep" not in reported["events"][5][1]  # none follows, so there is no figure
    assert reported["events"][6][1]["redrive.outcome"] == "exhausted"

    series = {"operation": "fetch", "policy_type": "Fixed"}
    counts = {
        (attributes["event"], attributes.get("outcome")): value
        for name, attributes, value, _ in reported["points"]
        if name == "redrive.retry.events" and series.items() <= attributes.items()
    }
    assert counts == {
        ("redrive.retry.attempt_failed", None): 5,
        ("redrive.retry.succeeded", None): 1,
        ("redrive.retry.gave_up", "exhausted"): 1,
    }
    sleeps = [(attributes, total) for name, attributes, _, total in reported["points"] if name == "redrive.retry.sleep"]
    assert sleeps == [(series, 8.0)]
    assert all("request_id" not in attributes for _, attributes, _, _ in reported["points"])


WITHOUT_THE_SDK = """
import json, logging, sys
logging.basicConfig(level=logging.DEBUG)
from redrive.retry import Fixed, retry
from redrive.testing import ManualClock
def fail():
    raise ConnectionError
try:
    retry(on=ConnectionError, policy=Fixed(1.0), clock=ManualClock(), on_event=lambda event: None).call(fail)
except ConnectionError:
    pass
print(json.dumps([name for name in sys.modules if name.startswith("opentelemetry")]))
"""


def test_nothing_imports_opentelemetry_first():
    assert run_python(WITHOUT_THE_SDK) == []


BROKEN = """
import json, sys, types
sys.modules["opentelemetry"] = types.ModuleType("opentelemetry")
sys.modules["opentelemetry.trace"] = sys.modules["opentelemetry"].trace = types.ModuleType("opentelemetry.trace")
from redrive.retry import Fixed, retry
from redrive.testing import ManualClock
calls = []
def flaky():
    calls.append(1)
    if len(calls) < 3:
        raise ConnectionError
    return "done"
print(json.dumps(retry(on=ConnectionError, policy=Fixed(1.0), clock=ManualClock()).call(flaky)))
"""


def test_a_broken_opentelemetry_changes_nothing():
    assert run_python(BROKEN) == "done"


class CountingFilter(logging.Filter):
    seen = 0

    def filter(self, _record):
        self.seen += 1
        return True


def test_an_event_that_nothing_gets_makes_no_log_record(monkeypatch):
    made = []
    layer = logging.getLogger("redrive.recovery")
    monkeypatch.setattr(layer, "makeRecord", lambda *values, **_: made.append(values))
    monkeypatch.setattr(layer, "handle", lambda _: None)
    monkeypatch.setattr(layer, "propagate", False)
    monkeypatch.setattr(layer, "handlers", [logging.NullHandler()])
    event = MessageFailed("1", "m", "orders", "ValueError", "g", None)
    report(event)
    assert not made
    monkeypatch.setattr(layer, "handlers", [])
    report(event)
    assert len(made) == 1, "Python prints what no handler gets"
    monkeypatch.setattr(layer, "handlers", [logging.NullHandler(), logging.StreamHandler()])
    report(event)
    assert len(made) == 2


def test_a_filter_sees_events_that_no_handler_gets():
    layer, counting = logging.getLogger("redrive.recovery"), CountingFilter()
    layer.addFilter(counting)
    try:
        report(MessageFailed("1", "m", "orders", "ValueError", "g", None))
    finally:
        layer.removeFilter(counting)
    assert counting.seen == 1
