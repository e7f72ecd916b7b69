# SPDX-License-Identifier: MIT
"""The history of a store: what was sent, completed, redelivered, failed and recovered, minute by minute.

Numbers are kept in the database, by the minute at first, later by the hour and by the day, so that there are charts
without any other system.
"""

from redrive.history import metrics, views
from redrive.history.buckets import Retention, TallyRow
from redrive.history.gauges import Gauge, gauges_of
from redrive.history.history import History
from redrive.history.ledger import HistoryLedger, Line
from redrive.history.operation_samples import OperationPace, OperationSample, pace_of
from redrive.history.rates import Rates
from redrive.history.series import Point, Series, SeriesQuestion
from redrive.history.workers import DestinationHealth, WorkerInfo, health_of, workers_of

__all__ = [
    "DestinationHealth",
    "Gauge",
    "History",
    "HistoryLedger",
    "Line",
    "OperationPace",
    "OperationSample",
    "Point",
    "Rates",
    "Retention",
    "Series",
    "SeriesQuestion",
    "TallyRow",
    "WorkerInfo",
    "gauges_of",
    "health_of",
    "metrics",
    "pace_of",
    "views",
    "workers_of",
]
