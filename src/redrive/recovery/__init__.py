# SPDX-License-Identifier: MIT
"""Layer 5: recover failures in bulk."""

from redrive.recovery.arrivals import SetAside
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
from redrive.recovery.fingerprint import Group, exception_group
from redrive.recovery.ingest import Classifier
from redrive.recovery.ledger import Ledger
from redrive.recovery.plan import Canary, Holder, Kind, Operation, Plan, Progress
from redrive.recovery.reading import Preview
from redrive.recovery.records import (
    Attempt,
    AuditEntry,
    DryRun,
    FailedDetail,
    FailedMessage,
    GroupInfo,
    LaneInfo,
    Note,
    Part,
    ServiceInfo,
)
from redrive.recovery.recovery import Recovery
from redrive.recovery.selection import Filter
from redrive.recovery.service import ServiceSettings, Step
from redrive.recovery.staging import LaneSettings
from redrive.recovery.states import OperationState, Outcome, Status
from redrive.recovery.transform import Transform
from redrive.recovery.transformer import TransformSettings
from redrive.recovery.vocabulary import Failure

__all__ = [
    "Attempt",
    "AuditEntry",
    "Canary",
    "Classifier",
    "DryRun",
    "FailedDetail",
    "FailedMessage",
    "Failure",
    "Filter",
    "Group",
    "GroupInfo",
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
    "Outcome",
    "Part",
    "Plan",
    "Preview",
    "Progress",
    "Recovery",
    "RecoveryFault",
    "ServiceInfo",
    "ServiceSettings",
    "SetAside",
    "Status",
    "Step",
    "StraysDropped",
    "Transform",
    "TransformSettings",
    "exception_group",
]
