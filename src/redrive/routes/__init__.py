# SPDX-License-Identifier: MIT
# ruff: noqa: N813 - in a chain they read as words, and for a reader they are functions
"""Layer 3: one event for many routes, and **replay** for the leg that failed.

A route reads in one line::

    route("big-orders", source=http("/orders")) | match("body.total > 100") >> webhook("https://example.com/hook")

Receivers are called ``from_…`` and senders ``to_…`` where both exist.
"""

from redrive.parts import ChoiceSetting, ListSetting, TableSetting, TextSetting
from redrive.routes import views
from redrive.routes.ack_tree import Ack, Nack
from redrive.routes.catalog import Routes
from redrive.routes.environment import PartEnvironment
from redrive.routes.events import (
    DestinationChanged,
    EventTaken,
    LegDelivered,
    LegFailed,
    ReceiverBroken,
    ReceiverEvent,
    RouteBroken,
    RouteChanged,
    RouteEvent,
)
from redrive.routes.filters.dedup import DedupFilter as dedup
from redrive.routes.filters.enrich import EnrichFilter as enrich
from redrive.routes.filters.hash import HashFilter as hash_of
from redrive.routes.filters.log import LogFilter as log
from redrive.routes.filters.match import MatchFilter as match
from redrive.routes.filters.metric import MetricFilter as metric
from redrive.routes.filters.python import PythonCallFilter as call
from redrive.routes.filters.python import PythonFilter as python
from redrive.routes.filters.regex import RegexFilter as regex
from redrive.routes.filters.sample import SampleFilter as sample
from redrive.routes.filters.split import SplitFilter as split
from redrive.routes.filters.transform import TransformFilter as transform
from redrive.routes.filters.ttl import TtlFilter as ttl
from redrive.routes.filters.unwrap import UnwrapFilter as unwrap
from redrive.routes.infos import RouteInfo
from redrive.routes.kinds import add_kind
from redrive.routes.leg_step import LegStep
from redrive.routes.leg_tallies import route_label
from redrive.routes.outcomes import (
    Delivered,
    DestinationDown,
    Rejected,
    SendFailure,
    SendOutcome,
    Throttled,
    TryLater,
)
from redrive.routes.parts import (
    BrokerSender,
    EventFilter,
    EventReceiver,
    EventSender,
    Intake,
    LegFacts,
    OpenFilter,
    OpenReceiver,
    OpenSender,
    OutsideFilter,
    RoutePart,
    setting,
)
from redrive.routes.receivers.debug import DebugReceiver as from_debug
from redrive.routes.receivers.http import HttpReceiver as http
from redrive.routes.receivers.jetstream import JetStreamReceiver as from_nats
from redrive.routes.receivers.queue import QueueReceiver as from_queue
from redrive.routes.receivers.receiver_events import EventGivenUp, SourceFault
from redrive.routes.receivers.redis_stream import RedisStreamReceiver as from_redis
from redrive.routes.receivers.source_events import EventSetAside, SourceBack, SourceLost
from redrive.routes.receivers.tail import FileTailReceiver as tail
from redrive.routes.receivers.timer import TimerReceiver as timer
from redrive.routes.receivers.topic import TopicReceiver as from_topic
from redrive.routes.route import Route, RouteDraft, RouteOptions, RouteSettings, route
from redrive.routes.route_file import read_routes
from redrive.routes.route_queues import queues_by_route
from redrive.routes.runner import RouteRunner
from redrive.routes.senders.debug import DebugSender as to_debug
from redrive.routes.senders.file import FileSender as to_file
from redrive.routes.senders.jetstream import JetStreamSender as to_nats
from redrive.routes.senders.log import LogSender as to_log
from redrive.routes.senders.queue import QueueSender as to_queue
from redrive.routes.senders.redis_stream import RedisStreamSender as to_redis
from redrive.routes.senders.topic import TopicSender as to_topic
from redrive.routes.senders.webhook import WebhookSender as webhook

__all__ = [
    "Ack",
    "BrokerSender",
    "ChoiceSetting",
    "Delivered",
    "DestinationChanged",
    "DestinationDown",
    "EventFilter",
    "EventGivenUp",
    "EventReceiver",
    "EventSender",
    "EventSetAside",
    "EventTaken",
    "Intake",
    "LegDelivered",
    "LegFacts",
    "LegFailed",
    "LegStep",
    "ListSetting",
    "Nack",
    "OpenFilter",
    "OpenReceiver",
    "OpenSender",
    "OutsideFilter",
    "PartEnvironment",
    "ReceiverBroken",
    "ReceiverEvent",
    "Rejected",
    "Route",
    "RouteBroken",
    "RouteChanged",
    "RouteDraft",
    "RouteEvent",
    "RouteInfo",
    "RouteOptions",
    "RoutePart",
    "RouteRunner",
    "RouteSettings",
    "Routes",
    "SendFailure",
    "SendOutcome",
    "SourceBack",
    "SourceFault",
    "SourceLost",
    "TableSetting",
    "TextSetting",
    "Throttled",
    "TryLater",
    "add_kind",
    "call",
    "dedup",
    "enrich",
    "from_debug",
    "from_nats",
    "from_queue",
    "from_redis",
    "from_topic",
    "hash_of",
    "http",
    "log",
    "match",
    "metric",
    "python",
    "queues_by_route",
    "read_routes",
    "regex",
    "route",
    "route_label",
    "sample",
    "setting",
    "split",
    "tail",
    "timer",
    "to_debug",
    "to_file",
    "to_log",
    "to_nats",
    "to_queue",
    "to_redis",
    "to_topic",
    "transform",
    "ttl",
    "unwrap",
    "views",
    "webhook",
]
