# SPDX-License-Identifier: MIT
"""The HTTP API: endpoints that parse, ask the desk, and render views."""

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter

from redrive.server.api import (
    events,
    failures,
    groups,
    journeys,
    messages,
    metrics,
    operations,
    overview,
    pipelines,
    provider,
    queues,
    redactions,
    routes,
    saved_views,
    search,
    series,
    session,
    tokens,
    topics,
    upkeep,
    users,
    webhooks,
)

ROUTERS: Final[Sequence[APIRouter]] = (
    overview.api.router,
    saved_views.api.router,
    search.api.router,
    events.api.router,
    failures.api.router,
    groups.api.router,
    metrics.api.router,
    operations.api.router,
    upkeep.api.router,
    queues.api.router,
    messages.api.router,
    topics.api.router,
    routes.api.router,
    pipelines.api.router,
    series.api.router,
    journeys.api.router,
    session.api.router,
    provider.api.router,
    tokens.api.router,
    users.api.router,
    redactions.api.router,
    webhooks.api.router,
)
"""The endpoints of all modules."""
