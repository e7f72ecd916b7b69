# SPDX-License-Identifier: MIT
"""The HTTP API: endpoints that parse, ask the desk, and render views."""

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter

from redrive.server.api import queues

ROUTERS: Final[Sequence[APIRouter]] = (queues.api.router,)
"""The endpoints of all modules."""
