# SPDX-License-Identifier: MIT
"""``/queues``: list the queues, add, change and delete them."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

from fastapi import Query
from pydantic import Field

from redrive.broker import QueueInfo, QueueSettings, is_own_queue
from redrive.broker.views import View, deleted_view, queue_view
from redrive.errors import NotAQueue
from redrive.server.api.endpoint import Caller, Endpoints, Name
from redrive.server.api.models import Instant, ViewModel, settings_model, stated, stated_model

if TYPE_CHECKING:  # they are made of the fields of QueueSettings
    QueueSettingsModel: TypeAlias = ViewModel
    StatedQueueSettings: TypeAlias = ViewModel
else:
    QueueSettingsModel = settings_model("QueueSettings", QueueSettings)
    StatedQueueSettings = stated_model("StatedQueueSettings", QueueSettings)


class QueueModel(ViewModel):
    """A queue and what is in it."""

    name: str = Field(examples=["orders"])
    settings: QueueSettingsModel
    ready: int = Field(description="Messages that can be received now.")
    scheduled: int = Field(description="Messages that will be available later.")
    locked: int = Field(description="Messages that a receiver has locked.")
    deferred: int = Field(description="Messages set aside, to be received by sequence number.")
    dead: int = Field(description="Messages in its dead-letter queue.")
    last_sequence: int = Field(description="The highest number of a message in it; 0 if it is empty.")
    oldest_at: Instant | None = Field(description="When the oldest message that can be received now was sent.")
    created_at: Instant
    used_at: Instant = Field(description="When something was last sent to it or received from it.")
    is_topic: bool = Field(description="Whether it is a topic, which holds nothing but dead letters.")


class DeletedQueue(ViewModel):
    """A queue that was deleted."""

    queue: str
    deleted: bool
    messages: int = Field(description="How many messages were deleted with it.")


api = Endpoints("queues")


@api.get("/queues", "queues.read", list[QueueModel])
async def list_queues(
    caller: Caller,
    *,
    show_all: Annotated[bool, Query(alias="all", description="Also the queues that Redrive keeps for itself.")] = False,
) -> list[View]:
    """List the queues, in order of their names."""
    found = await caller.look(caller.desk.broker.queues, narrowed=True)
    return [
        queue_view(each) for each in found if caller.principal.has(each.name) and _is_shown(each, show_all=show_all)
    ]


def _is_shown(queue: QueueInfo, *, show_all: bool) -> bool:
    return show_all or queue.dead > 0 or not is_own_queue(queue.name)


@api.get("/queues/{name}", "queues.read", QueueModel)
async def get_queue(caller: Caller, name: Name) -> View:
    """Return a queue: its settings, and how many messages are in which state."""
    return queue_view(await caller.look(lambda: caller.desk.broker.inspect(name), queues=[name]))


@api.put("/queues/{name}", "queues.declare", QueueModel)
async def declare_queue(caller: Caller, name: Name, settings: StatedQueueSettings) -> View:
    """Make sure that a queue is there; a setting that is not stated is as usual.

    If it is there already, it must have the settings that are stated; otherwise the answer is 409, and nothing changes.
    """

    async def declare() -> QueueInfo:
        await caller.desk.broker.declare(name, **stated(settings))
        return await caller.desk.broker.inspect(name)

    return queue_view(await caller.change(f"queue:{name}", declare, queues=[name]))


@api.patch("/queues/{name}", "queues.update", QueueModel)
async def update_queue(caller: Caller, name: Name, settings: StatedQueueSettings) -> View:
    """Change some settings of a queue. Messages that are in it already keep their expiry."""

    async def update() -> QueueInfo:
        await caller.desk.broker.update(name, **stated(settings))
        return await caller.desk.broker.inspect(name)

    return queue_view(await caller.change(f"queue:{name}", update, queues=[name]))


@api.delete("/queues/{name}", "queues.delete", DeletedQueue)
async def delete_queue(caller: Caller, name: Name) -> View:
    """Delete a queue, its dead-letter queue and all messages in them."""

    async def delete() -> int:
        found = await caller.desk.broker.inspect(name)
        if found.is_topic:  # its subscriptions would be deleted unseen
            raise NotAQueue(name)
        await caller.desk.broker.delete(name)
        return found.ready + found.scheduled + found.locked + found.deferred + found.dead

    return deleted_view(name, await caller.change(f"queue:{name}", delete, queues=[name]))
