# SPDX-License-Identifier: MIT
"""Models of messages: as they were sent, and as they are in a queue."""

from typing import Literal

from pydantic import Field

from redrive.server.api.models import Instant, ViewModel

HeaderModel = str | int | float | bool | None


class MessageModel(ViewModel):
    """A message as it was sent."""

    id: str | None = Field(examples=["order-17"])
    content_type: str | None = Field(examples=["application/json"])
    subject: str | None
    correlation_id: str | None
    reply_to: str | None
    to: str | None
    session_id: str | None
    ttl: float | None = Field(description="How many seconds it is worth delivering.")
    headers: dict[str, HeaderModel] = Field(examples=[{"customer": 7}])
    body: str = Field(description="The body: text, or base64 if it is not UTF-8.", examples=['{"total": 250}'])
    body_encoding: Literal["utf-8", "base64"] = Field(description="What body is.")


class DeadLetterModel(ViewModel):
    """Why a message is a dead letter."""

    reason: str = Field(description="A word for programs.", examples=["MaxDeliveryCountExceeded"])
    description: str = Field(description="A sentence for people.")
    source: str = Field(description="The queue it came from.", examples=["orders"])


class ReceivedModel(MessageModel):
    """A message as it is in a queue."""

    queue: str = Field(examples=["orders"])
    sequence: int = Field(description="Its number there, never used twice.", examples=[17])
    state: str = Field(description="What it is doing.", examples=["ready"])
    delivery_count: int = Field(description="How often it has been locked.")
    enqueued_at: Instant
    due_at: Instant | None = Field(description="When a scheduled message becomes available.")
    locked_until: Instant | None = Field(description="When the receiver's right to settle it ends.")
    expires_at: Instant | None = Field(description="When it is no longer worth delivering.")
    dead_letter: DeadLetterModel | None
