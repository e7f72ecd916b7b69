# SPDX-License-Identifier: MIT
"""``/metrics``: what Prometheus reads."""

from fastapi import Request, Response

from redrive.server.api.endpoint import Caller, Endpoints
from redrive.server.metrics import CONTENT_TYPE

api = Endpoints("metrics", prefix="")


@api.get(
    "/metrics",
    "metrics.read",
    None,
    response_class=Response,
    responses={200: {"description": "All metrics.", "content": {CONTENT_TYPE: {"schema": {"type": "string"}}}}},
)
async def get_metrics(caller: Caller, request: Request) -> Response:
    """Return the metrics of this process, and the counts of queues and failures, for Prometheus."""
    state = request.app.state
    text = await caller.look(lambda: state.metrics.text(caller.desk, state.topics))
    return Response(text, media_type=CONTENT_TYPE)
