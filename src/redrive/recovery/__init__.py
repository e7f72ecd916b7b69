# SPDX-License-Identifier: MIT
"""Layer 5: recover failures in bulk."""

from redrive.recovery import suggestions, views
from redrive.recovery.arrivals import SetAside
from redrive.recovery.audited import audited
from redrive.recovery.blocking import BlockingRecovery
from redrive.recovery.chosen import Chosen
from redrive.recovery.dry_run import DryRun, StillFailing
from redrive.recovery.events import (
    MessageFailed,
    MessageRecovered,
    MessagesEjected,
    MessageSetAside,
    OperationChanged,
    OperationHalted,
    RecoveryFault,
    StraysDropped,
)
from redrive.recovery.failure_formats import Failure
from redrive.recovery.filter import Filter
from redrive.recovery.fingerprint import Group, exception_group
from redrive.recovery.group_state import GroupState
from redrive.recovery.ingest import Classifier
from redrive.recovery.ledger import Ledger
from redrive.recovery.list_order import Order, Place
from redrive.recovery.operation import Holder, Kind, Operation, Plan, Progress
from redrive.recovery.preview import Preview
from redrive.recovery.queries import Reader
from redrive.recovery.records import (
    AuditEntry,
    CountDifference,
    FailedAttempt,
    FailedDetail,
    FailedMessage,
    Found,
    GroupInfo,
    LaneInfo,
    Note,
    Part,
    ServiceInfo,
    TrailFilter,
)
from redrive.recovery.recovery import Recovery
from redrive.recovery.service import ServiceSettings, Step
from redrive.recovery.settings import Canary, RecoverySettings
from redrive.recovery.staging_queue import LaneSettings
from redrive.recovery.states import OperationState, Outcome, Status
from redrive.recovery.transform import Transform
from redrive.recovery.transformer import TransformSettings

__all__ = [
    "AuditEntry",
    "BlockingRecovery",
    "Canary",
    "Chosen",
    "Classifier",
    "CountDifference",
    "DryRun",
    "FailedAttempt",
    "FailedDetail",
    "FailedMessage",
    "Failure",
    "Filter",
    "Found",
    "Group",
    "GroupInfo",
    "GroupState",
    "Holder",
    "Kind",
    "LaneInfo",
    "LaneSettings",
    "Ledger",
    "MessageFailed",
    "MessageRecovered",
    "MessageSetAside",
    "MessagesEjected",
    "Note",
    "Operation",
    "OperationChanged",
    "OperationHalted",
    "OperationState",
    "Order",
    "Outcome",
    "Part",
    "Place",
    "Plan",
    "Preview",
    "Progress",
    "Reader",
    "Recovery",
    "RecoveryFault",
    "RecoverySettings",
    "ServiceInfo",
    "ServiceSettings",
    "SetAside",
    "Status",
    "Step",
    "StillFailing",
    "StraysDropped",
    "TrailFilter",
    "Transform",
    "TransformSettings",
    "audited",
    "exception_group",
    "suggestions",
    "views",
]
