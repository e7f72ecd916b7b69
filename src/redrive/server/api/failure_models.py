# SPDX-License-Identifier: MIT
"""Models of failed messages, groups, notes and operations."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from fastapi import Path, Query
from pydantic import ConfigDict, Field

from redrive.recovery import (
    AuditEntry,
    DryRun,
    FailedMessage,
    GroupInfo,
    GroupState,
    Kind,
    LaneInfo,
    Note,
    Operation,
    Outcome,
    Part,
    Preview,
    ServiceInfo,
)
from redrive.server.api.message_models import HeaderModel, MessageModel, ReceivedModel
from redrive.server.api.models import Instant, ViewModel
from redrive.server.api.pages import LARGEST_NUMBER
from redrive.server.api.record_models import record_model

Filtered = Annotated[
    str,
    Query(
        max_length=10_000,
        description="Which failed messages, as on the command line; unresolved ones, unless it says status:.",
        examples=["queue:orders exception:TimeoutError age<2h"],
    ),
]
FailureId = Annotated[
    str,
    Path(
        pattern="^[0-9a-f]{4,32}$",
        description="The failed message's id, or as much of the beginning of it as no other has.",
        examples=["0123456789abcdef0123456789abcdef"],
    ),
]
OperationNumber = Annotated[int, Path(ge=1, le=LARGEST_NUMBER, description="The operation's number.", examples=[7])]

if TYPE_CHECKING:  # they are made of the fields of the records
    AuditModel: TypeAlias = ViewModel
    DryRunRecord: TypeAlias = ViewModel
    FailedModel: TypeAlias = ViewModel
    GroupModel: TypeAlias = ViewModel
    GroupStateRecord: TypeAlias = ViewModel
    LaneModel: TypeAlias = ViewModel
    NoteModel: TypeAlias = ViewModel
    OperationRecord: TypeAlias = ViewModel
    PartModel: TypeAlias = ViewModel
    PreviewModel: TypeAlias = ViewModel
    ServiceModel: TypeAlias = ViewModel
    OutcomeWord: TypeAlias = str
else:
    AuditModel = record_model(AuditEntry)
    DryRunRecord = record_model(DryRun, "DryRunCounts")
    FailedModel = record_model(FailedMessage)
    GroupModel = record_model(GroupInfo)
    GroupStateRecord = record_model(GroupState)
    LaneModel = record_model(LaneInfo)
    NoteModel = record_model(Note)
    OperationRecord = record_model(Operation, "OperationRecord", leave_out=("plan",))
    PartModel = record_model(Part)
    PreviewModel = record_model(Preview)
    ServiceModel = record_model(ServiceInfo)
    OutcomeWord = Literal[tuple(each.word for each in Outcome)]


class CountModel(ViewModel):
    """How many failed messages match."""

    count: int = Field(examples=[412])
    more: bool = Field(default=False, description="There are more than that; it is left out if there are not.")


class GroupStateModel(GroupStateRecord):
    """What people decided about a group, and what became of its messages that were sent again."""

    id: str = Field(description="The group's id.", examples=["3f2a9c4e5b6d7081"])


class AttemptModel(ViewModel):
    """One failure of a message: when it was, and everything that the message says about it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    failed_at: Instant
    operation: int | None = Field(description="The operation that had sent it; null: it comes from its sender.")


class FailureDetail(FailedModel):
    """Everything about a failed message."""

    message: MessageModel
    attempts_kept: list[AttemptModel] = Field(description="Its failures, the last one first.")
    operations: list[PartModel] = Field(description="The operations it was in, the last one first.")
    notes: list[NoteModel]


class OperationModel(OperationRecord):
    """A request on its way, or done."""

    kind: Literal["recover", "archive", "restore", "resolve"]
    filter: str = Field(description="Which messages: a filter.", examples=["queue:orders"])
    plan: dict[str, Any] = Field(description="What was asked for, as it is stored.")


class OperationDetail(OperationModel):
    """An operation with its notes."""

    notes: list[NoteModel]
    messages: list[PartModel] | None = Field(None, description="Its messages, if they were asked for.")


class DestinationModel(ViewModel):
    """How a queue is doing that messages would go to."""

    queue: str = Field(examples=["orders"])
    workers: int = Field(description="How many workers have a handler for it.")
    concurrency: int = Field(description="How many messages those handle at a time.")
    in_flight: int = Field(description="How many they are handling.")
    p95_s: float | None = Field(description="The slowest of their times for 95 of 100 messages, in seconds.")
    ready: int = Field(description="How many messages wait.")
    sent_per_minute: float = Field(description="How many came in a minute, lately.")
    completed_per_minute: float
    failed_per_minute: float = Field(description="How many failed for good.")
    is_read: bool = Field(description="Whether a worker has a handler for it, or something was completed lately.")


class DryRunModel(DryRunRecord):
    """What an operation would find."""

    filter: str | None = Field(description="The filter, with instants in place of ages; null: ids were given.")
    previews: list[PreviewModel] = Field(description="What would change about the first messages.")
    unread: dict[str, int] = Field(description="How many failures are not read yet, by the queue they are in.")
    destinations: list[DestinationModel] = Field(description="How the queues are doing that messages would go to.")


class PreviewsModel(ViewModel):
    """What a transform would change about messages."""

    previews: list[PreviewModel]


class SetAsideModel(ViewModel):
    """A message that could not be read as a failure."""

    number: int
    reason: str = Field(description="What is wrong with it.")
    at: Instant | None
    message: ReceivedModel


# --- requests


class CanaryModel(ViewModel):
    """A few messages that go first; the rest follows if they do well."""

    count: int = Field(ge=1, le=1_000, description="How many.", examples=[5])
    max_failures: int = Field(0, ge=0, description="How many of them may fail again.")
    patience: float = Field(300.0, gt=0, le=31_536_000, description="Seconds to wait for their outcomes.")


class TransformModel(ViewModel):
    """How a message is changed before it is sent again."""

    set_headers: dict[str, HeaderModel] = Field({}, description="Headers that get a value.")
    remove_headers: list[str] = Field([], description="Headers to remove.")
    set_json: dict[str, Any] = Field({}, description="Values in a JSON body, by JSON pointer.")
    remove_json: list[str] = Field([], description="JSON pointers to values to remove.")
    replace: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(
        [], description="Texts in the body, and their replacements."
    )
    body: str | None = Field(None, description="The whole new body, in base64.")
    subject: str | None = None
    content_type: str | None = None
    reply_to: str | None = None
    function: str | None = Field(
        None, description="A function that changes it; the settings of the server must allow it."
    )


class ChosenModel(ViewModel):
    """Which failed messages: a filter, or ids. One of the two must be there."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["filter"]}, {"required": ["ids"]}]}
    )

    filter: str | None = Field(
        None, min_length=1, max_length=10_000, description="A filter.", examples=["group:3f2a9c4e5b6d7081"]
    )
    ids: list[str] | None = Field(None, min_length=1, max_length=10_000, description="Ids of failed messages.")


class OperationAsked(ChosenModel):
    """What is to be done with which failed messages, and how."""

    kind: Literal[tuple(each.value for each in Kind)] = Field(  # type: ignore[valid-type]  # known at run time only
        "recover", description="What is done with them."
    )
    limit: int | None = Field(None, ge=1, le=LARGEST_NUMBER, description="How many at most, the oldest first.")
    rate: float | None = Field(None, ge=0.001, le=1_000_000, description="Messages a second to each destination.")
    canary: CanaryModel | int | None = Field(None, description="How many go first, and what is expected of them.")
    redirect: str | None = Field(None, description="The queue they all go to, instead of the one they failed in.")
    transform: TransformModel | None = Field(None, description="What is changed about each on its way.")
    again: bool = Field(default=False, description="Also send what was sent before, with its result not known.")
    at: Instant | None = Field(None, description="When to begin.")
    reason: str = Field(
        "", max_length=1_024, description="Why, for the audit trail.", examples=["the warehouse is back"]
    )


class PreviewAsked(ChosenModel):
    """Which failed messages, and how they would be changed."""

    transform: TransformModel
    sample: int = Field(5, ge=1, le=50, description="How many are shown.")


class EditAsked(ViewModel):
    """How a failed message is changed; the copy is sent, with an id of its own."""

    transform: TransformModel
    reason: str = Field("", max_length=1_024)


class ReasonAsked(ViewModel):
    """Why."""

    reason: str = Field("", max_length=1_024, description="Why, for the audit trail.")


class RateAsked(ViewModel):
    """How fast an operation sends from now on."""

    rate: float | None = Field(
        ge=0.001, le=1_000_000, description="Messages a second to each destination; null: no limit."
    )
