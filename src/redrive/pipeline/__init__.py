# SPDX-License-Identifier: MIT
"""Layer 4: staged pipelines, which **re-run** only what failed.

A pipeline receives, processes, batches and sends::

    pipe = Pipeline("reports")


    @pipe.process
    def route(report):
        yield Output("lab", report.items)


    pipe.destination("lab", FileTransport("outbox"), timing=PerDay(24, zone="Europe/Berlin"), merge=merge)
"""

from redrive.pipeline import views
from redrive.pipeline.cadence import Backstop, Cron, Every, Limits, PerDay, Timing
from redrive.pipeline.events import DestinationStopped, PipelineEvent, SlotServed, TaskEnded, TaskFailed, TasksExpired
from redrive.pipeline.infos import ActionInfo, DestinationInfo, LineageEdge, SlotInfo
from redrive.pipeline.intake import SubmissionReceipt
from redrive.pipeline.items import Body, Item, Output, Report, Submission
from redrive.pipeline.open_pipeline import OpenPipeline
from redrive.pipeline.pipeline import Pipeline
from redrive.pipeline.pipelines import Pipelines, TaskDetail, Trace
from redrive.pipeline.plan import PipelineDestination, PipelinePlan
from redrive.pipeline.plan_file import parse_pipeline, read_pipeline
from redrive.pipeline.records import ShipmentInfo, TaskInfo
from redrive.pipeline.runner import PipelineRunner
from redrive.pipeline.shipment import (
    DestinationAway,
    OutcomeUnknown,
    Shipment,
    ShipmentDelayed,
    ShipmentRefused,
    ShipmentSent,
)
from redrive.pipeline.states import ShipmentState, SlotState, TaskState
from redrive.pipeline.stored_plan import StoredDestination, StoredPlan, shown_plan
from redrive.pipeline.task_token import TaskToken
from redrive.pipeline.transport import BrokerTransport, OpenTransport, Transport, TransportEnvironment
from redrive.pipeline.transports import add_transport, transport_kinds
from redrive.pipeline.transports.call import CallTransport
from redrive.pipeline.transports.email import EmailTransport
from redrive.pipeline.transports.file import FileTransport
from redrive.pipeline.transports.http import HttpTransport
from redrive.pipeline.transports.queue import QueueTransport, TopicTransport
from redrive.pipeline.transports.s3 import S3Transport
from redrive.pipeline.transports.sftp import SftpTransport

__all__ = [
    "ActionInfo",
    "Backstop",
    "Body",
    "BrokerTransport",
    "CallTransport",
    "Cron",
    "DestinationAway",
    "DestinationInfo",
    "DestinationStopped",
    "EmailTransport",
    "Every",
    "FileTransport",
    "HttpTransport",
    "Item",
    "Limits",
    "LineageEdge",
    "OpenPipeline",
    "OpenTransport",
    "OutcomeUnknown",
    "Output",
    "PerDay",
    "Pipeline",
    "PipelineDestination",
    "PipelineEvent",
    "PipelinePlan",
    "PipelineRunner",
    "Pipelines",
    "QueueTransport",
    "Report",
    "S3Transport",
    "SftpTransport",
    "Shipment",
    "ShipmentDelayed",
    "ShipmentInfo",
    "ShipmentRefused",
    "ShipmentSent",
    "ShipmentState",
    "SlotInfo",
    "SlotServed",
    "SlotState",
    "StoredDestination",
    "StoredPlan",
    "Submission",
    "SubmissionReceipt",
    "TaskDetail",
    "TaskEnded",
    "TaskFailed",
    "TaskInfo",
    "TaskState",
    "TaskToken",
    "TasksExpired",
    "Timing",
    "TopicTransport",
    "Trace",
    "Transport",
    "TransportEnvironment",
    "add_transport",
    "parse_pipeline",
    "read_pipeline",
    "shown_plan",
    "transport_kinds",
    "views",
]
