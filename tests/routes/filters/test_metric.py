# SPDX-License-Identifier: MIT
"""The filter that counts events in OpenTelemetry."""

import json
import logging
import subprocess
import sys

import pytest

from redrive.errors import InvalidExpression, InvalidSetting
from redrive.routes.filters import metric
from redrive.routes.filters.metric import MetricFilter
from tests.patience import PATIENCE_S
from tests.routes.filters.events import event, leg

WITH_THE_SDK = """
import json
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from redrive.routes.filters.metric import MetricFilter
from tests.routes.filters.events import event, leg

reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
counting = MetricFilter("orders.received", labels={"region": "headers.region", "tags": "body.tags"})
measuring = MetricFilter("orders.total", value="body.total")
for total, region in [(5, "eu"), (7, "eu"), (1, None)]:
    order = event({"total": total, "tags": ["a"]}, headers={"region": region})
    assert counting.apply(order, leg()) == (order,)
    assert measuring.apply(order, leg()) == (order,)
for bad in [event({"total": "5"}), event({"total": True}), event({}), event(b"no json")]:
    assert measuring.apply(bad, leg()) == (bad,)
points = [
    (found.name, dict(point.attributes), getattr(point, "value", None), getattr(point, "sum", None))
    for resource in reader.get_metrics_data().resource_metrics
    for scope in resource.scope_metrics
    for found in scope.metrics
    for point in found.data.data_points
]
print(json.dumps(points))
"""


def test_events_are_counted_by_their_labels_and_values_are_measured():
    done = subprocess.run(
        [sys.executable, "-c", WITH_THE_SDK], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    where = {"application": "shop", "route": "big"}
    assert json.loads(done.stdout) == [
        ["orders.received", {"region": "eu", "tags": "['a']", **where}, 2, None],
        ["orders.received", {"tags": "['a']", **where}, 1, None],
        ["orders.total", where, None, 13],
    ]


def test_what_cannot_be_measured_is_logged_and_the_event_passes(caplog, monkeypatch):
    monkeypatch.setattr(metric, "is_traced", lambda: True)
    order = event({"total": "5"})
    assert list(MetricFilter("orders.total", value="body.total").apply(order, leg())) == [order]
    broken = event(b"no json")
    assert list(MetricFilter("orders", labels={"a": "body.a"}).apply(broken, leg())) == [broken]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert caplog.messages[0] == "metric 'orders.total' cannot be recorded for event 'o-1': body.total is no number"
    assert "the body is no JSON" in caplog.messages[1]


def test_nothing_is_read_in_a_program_without_opentelemetry(caplog, monkeypatch):
    monkeypatch.setattr(metric, "is_traced", lambda: False)
    broken = event(b"no json")
    assert list(MetricFilter("orders", labels={"a": "body.a"}).apply(broken, leg())) == [broken]
    assert caplog.records == []


@pytest.mark.parametrize("name", ["1orders", "orders received", "a" * 256, "é"])
def test_a_name_that_opentelemetry_refuses_is_refused(name):
    with pytest.raises(InvalidSetting, match="must be a letter, and up to 254"):
        MetricFilter(name)


def test_paths_are_checked_when_the_filter_is_made():
    with pytest.raises(InvalidExpression):
        MetricFilter("orders", labels={"a": "total"})
    with pytest.raises(InvalidExpression):
        MetricFilter("orders", value="total")
