# SPDX-License-Identifier: MIT
"""``/queues/{name}/messages``: look at the messages of a queue, send, purge, resubmit and cancel them."""

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Path, Query
from pydantic import Field

from redrive.broker import Message, Send, State
from redrive.broker.views import View, cancelled_view, purged_view, received_view, resubmitted_view, sent_view
from redrive.clock import utc
from redrive.errors import InvalidMessage, MessageNotFound
from redrive.server.api.endpoint import Caller, Endpoints, Name
from redrive.server.api.message_models import HeaderModel, ReceivedModel
from redrive.server.api.models import Instant, ViewModel
from redrive.server.api.pages import LARGEST_NUMBER, PAGED, Page
from redrive.server.api.requests import Key, done_with, once

_LARGEST = 2**63 - 1
Sequence_ = Annotated[int, Path(ge=0, le=_LARGEST, description="The message's number in its queue.", examples=[17])]
StateWord = Literal["ready", "scheduled", "locked", "deferred", "deferred_locked"]


class NewMessage(ViewModel):
    """A message to send."""

    body: str = Field(description="The body: text, or base64.", examples=['{"total": 250}'])
    body_encoding: Literal["utf-8", "base64"] = Field("utf-8", description="What body is.")
    id: str | None = Field(None, description="Its id; random by default.")
    subject: str | None = None
    content_type: str | None = Field(None, examples=["application/json"])
    correlation_id: str | None = None
    reply_to: str | None = None
    to: str | None = None
    session_id: str | None = None
    ttl: float | None = Field(None, gt=0, le=315_360_000, description="How many seconds it is worth delivering.")
    headers: dict[str, HeaderModel] = Field({}, examples=[{"customer": 7}])

    def message(self) -> Message:
        """Return the message."""
        given = {name: value for name, value in self.model_dump().items() if name not in ("body", "body_encoding")}
        if self.body_encoding == "utf-8":
            try:
                return Message(self.body.encode(), **given)
            except UnicodeEncodeError:
                raise InvalidMessage("body", "half of a surrogate pair", "must be a text that has UTF-8") from None
        try:
            return Message(base64.b64decode(self.body, validate=True), **given)
        except (binascii.Error, ValueError):
            raise InvalidMessage("body", self.body[:100], "must be in base64") from None


class SendAsked(ViewModel):
    """Messages to send, all or none."""

    messages: list[NewMessage] = Field(min_length=1, max_length=1_000)
    delay: float = Field(0.0, ge=0, le=315_360_000, description="How many seconds they become available after.")


class SentModel(ViewModel):
    """How many messages were sent."""

    queue: str
    sent: int
    duplicates: int = Field(
        description="How many were dropped: their ids were sent before, or no subscription matches."
    )
    first_sequence: int | None
    last_sequence: int | None


class PurgedModel(ViewModel):
    """How many messages were removed."""

    queue: str
    removed: int


class StayedModel(ViewModel):
    """A dead letter that its queue refuses."""

    number: int
    id: str
    reason: str


class ResubmittedModel(ViewModel):
    """How many dead letters were sent again."""

    queue: str
    resubmitted: int
    stayed: list[StayedModel] = Field(description="Those that their queue refuses; they are where they were.")
    locked: int = Field(description="How many another receiver has locked.")
    locked_until: Instant | None


Numbers = Annotated[
    list[Annotated[int, Field(ge=1, le=LARGEST_NUMBER)]] | None,
    Field(
        min_length=1, max_length=1_000, description="Only these, all or none, by their numbers.", examples=[[42, 43]]
    ),
]


class PurgeAsked(ViewModel):
    """Which dead letters are removed; without it, everything is."""

    sequences: Numbers = None


class ResubmitAsked(ViewModel):
    """Which dead letters are sent again."""

    max_messages: int | None = Field(None, ge=1, le=_LARGEST, description="How many at most, the oldest first.")
    sequences: Numbers = None


class CancelledModel(ViewModel):
    """A scheduled message that was removed."""

    queue: str
    sequence: int
    cancelled: bool


api = Endpoints("messages")


@api.get("/queues/{name}/messages", "messages.read", list[ReceivedModel], responses=PAGED)
async def list_messages(
    caller: Caller,
    name: Name,
    page: Page,
    state: Annotated[list[StateWord] | None, Query(description="Only these; repeatable.")] = None,
    start: Annotated[int, Query(ge=0, le=LARGEST_NUMBER, description="Begin with this number.")] = 0,
) -> list[View]:
    """Look at messages without receiving them, in order of their numbers. Dead letters: queue ``orders%2F$dead``."""
    states = [State[each.upper()] for each in state] if state else None
    peek = caller.desk.broker.peek
    found = await caller.look(
        lambda: peek(name, max_messages=page.limit, start=page.after(start - 1) + 1, states=states), queues=[name]
    )
    return [received_view(each) for each in page.of(found, found[-1].sequence if found else None)]


@api.get("/queues/{name}/messages/{sequence}", "messages.read", ReceivedModel)
async def get_message(caller: Caller, name: Name, sequence: Sequence_) -> View:
    """Look at one message of a queue."""
    found = await caller.look(lambda: caller.desk.broker.peek(name, max_messages=1, start=sequence), queues=[name])
    if not found or found[0].sequence != sequence:
        raise MessageNotFound(name, sequence, "such")
    return received_view(found[0])


@api.post("/queues/{name}/messages", "messages.send", SentModel)
async def send_messages(caller: Caller, name: Name, asked: SendAsked, key: Key = None) -> View:
    """Send messages to a queue or a topic, all or none. When this answers, they are on disk."""

    async def send() -> Sequence[int | None]:
        broker = caller.desk.broker
        at = utc(broker.clock.time() + asked.delay) if asked.delay else None
        sends = [Send(name, each.message(), at) for each in asked.messages]
        return await broker.apply(*sends, inside=done_with(caller, key))

    numbers = await caller.change(f"queue:{name}", send, queues=[name])
    sent = [each for each in numbers if each is not None]
    return sent_view(
        name,
        sent=len(sent),
        duplicates=len(numbers) - len(sent),
        first_sequence=sent[0] if sent else None,
        last_sequence=sent[-1] if sent else None,
    )


@api.delete("/queues/{name}/messages/{sequence}", "messages.cancel", CancelledModel)
async def cancel_message(caller: Caller, name: Name, sequence: Sequence_) -> View:
    """Remove a scheduled message before its time."""
    cancel = caller.desk.broker.cancel
    await caller.change(f"queue:{name}", lambda: cancel(name, sequence), queues=[name])
    return cancelled_view(name, sequence)


@api.post("/queues/{name}/purge", "messages.purge", PurgedModel)
async def purge_queue(caller: Caller, name: Name, asked: PurgeAsked | None = None, key: Key = None) -> View:
    """Remove every message of a queue that can be received now, for good; or dead letters by their numbers."""
    purge, numbers = caller.desk.broker.purge, None if asked is None else asked.sequences
    call = once(caller, key, lambda: purge(name, sequences=numbers))
    return purged_view(name, await caller.change(f"queue:{name}", call, queues=[name]))


@api.post("/queues/{name}/resubmit", "messages.resubmit", ResubmittedModel)
async def resubmit_messages(caller: Caller, name: Name, asked: ResubmitAsked, key: Key = None) -> View:
    """Send the dead letters of a queue to it again, each in one transaction with its removal."""
    resubmit = caller.desk.broker.resubmit
    call = once(caller, key, lambda: resubmit(name, max_messages=asked.max_messages, sequences=asked.sequences))
    return resubmitted_view(name, await caller.change(f"queue:{name}", call, queues=[name]))
