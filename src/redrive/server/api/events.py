# SPDX-License-Identifier: MIT
"""``/events``: which topics have changed, as server-sent events. No data: a client fetches what it shows."""

import json
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

from fastapi import Request
from fastapi.responses import StreamingResponse

from redrive.access import Principal
from redrive.errors import SignInRequired
from redrive.server.api.endpoint import Caller, Endpoints
from redrive.server.topics import TopicHub, TopicStream

if TYPE_CHECKING:
    from redrive.clock import Clock

_BEAT_S: Final = 15.0
_TOGETHER_S: Final = 0.25
_ASK_AGAIN_S: Final = 60.0
_LONGEST_S: Final = 600.0
_RETRY_MS: Final = 2_000
_EXAMPLE: Final = 'retry: 2000\n\ndata: ["failed", "operation:128"]\n\n'

api = Endpoints("events")


@api.get(
    "/events",
    "events.read",
    None,
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "A stream of events: each names topics that have changed, as a list in JSON.",
            "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
        }
    },
)
async def stream_events(caller: Caller, request: Request) -> StreamingResponse:
    """Tell which topics have changed, from now on.

    Topics: `failed`, `operations`, `operation:128`, `queue:orders`, `routes`, `route:shop`, `pipelines`,
    `pipeline:reports`, `audit`, and `everything`. The stream ends after ten minutes, and when the token is revoked;
    clients connect again by themselves.
    """
    hub: TopicHub = request.app.state.topics

    async def opened() -> TopicStream:
        return hub.open(lambda topic: _may_hear(caller.principal, topic))

    stream = await caller.look(opened)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    lines = _lines(stream, request, hub)
    return StreamingResponse(lines, media_type="text/event-stream", headers=headers)


def _may_hear(principal: Principal, topic: str) -> bool:
    kind, _, name = topic.partition(":")
    return principal.queues is None or (kind == "queue" and principal.has(name)) or not name


async def _lines(stream: TopicStream, request: Request, hub: TopicHub) -> AsyncGenerator[str]:
    """Yield the lines of a stream until it is over, its time is, or its client may not listen any more."""
    clock: Clock = request.app.state.desk.broker.clock
    began = asked = clock.monotonic()
    try:
        yield f"retry: {_RETRY_MS}\n\n"
        while not stream.is_over and clock.monotonic() - began < _LONGEST_S:
            topics = await stream.next(clock, _BEAT_S)
            if clock.monotonic() - asked >= _ASK_AGAIN_S:
                asked = clock.monotonic()
                await request.app.state.door.admit(request)
            yield f"data: {json.dumps(topics)}\n\n" if topics else ": still here\n\n"
            await stream.rest(clock, _TOGETHER_S)
    except SignInRequired:
        return  # it has begun, so the end is all that can be said
    finally:
        hub.close(stream)
