# SPDX-License-Identifier: MIT
"""The operator console: pages that ask the same desk as the API, and work without a script."""

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter
from fastapi.routing import APIRoute

from redrive.server.console import (
    audit,
    failed,
    failure,
    files,
    group_panel,
    journey,
    jump,
    operations,
    overview,
    pipeline_changes,
    pipelines,
    queue_forms,
    queues,
    routes,
    settings_page,
    sheet,
    sign_in,
    topics,
)
from redrive.server.console.fragments import Fragments, SharedFragments

__all__ = ["PATHS", "ROUTERS", "Fragments", "SharedFragments"]

ROUTERS: Final[Sequence[APIRouter]] = (
    files.router,
    sign_in.pages.router,
    overview.pages.router,
    failed.pages.router,
    group_panel.pages.router,
    sheet.pages.router,
    failure.pages.router,
    jump.pages.router,
    operations.pages.router,
    queues.pages.router,
    queue_forms.pages.router,
    topics.pages.router,
    journey.pages.router,
    audit.pages.router,
    routes.pages.router,
    pipelines.pages.router,
    pipeline_changes.pages.router,
    settings_page.pages.router,
)
"""The pages of all modules."""

PATHS: Final = frozenset(route.path for router in ROUTERS for route in router.routes if isinstance(route, APIRoute))
"""The addresses of all pages, with names in braces."""
