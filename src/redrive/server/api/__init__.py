# SPDX-License-Identifier: MIT
"""The HTTP API: endpoints that parse, ask the desk, and render views."""

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter

from redrive.server.api import failures, groups, operations, queues

ROUTERS: Final[Sequence[APIRouter]] = (
    failures.api.router,
    groups.api.router,
    operations.api.router,
    queues.api.router,
)
"""The endpoints of all modules."""
