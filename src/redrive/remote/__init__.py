# SPDX-License-Identifier: MIT
"""Queues and failed messages behind a server: what a command does through the HTTP API instead of the database."""

from redrive.remote.access import RemoteAccess
from redrive.remote.broker import RemoteBroker
from redrive.remote.connection import TOKEN_VARIABLE, ServerConnection, is_server
from redrive.remote.overview import RemoteAttention, RemoteHistory, RemoteJourneys
from redrive.remote.pipelines import RemotePipelines
from redrive.remote.recovery import RemoteRecovery
from redrive.remote.routes import RemoteRoutes, SeenRoute
from redrive.remote.webhooks import RemoteWebhooks

__all__ = [  # noqa: RUF022 - plain order, as the test of exports wants
    "RemoteAccess",
    "RemoteAttention",
    "RemoteBroker",
    "RemoteHistory",
    "RemoteJourneys",
    "RemotePipelines",
    "RemoteRecovery",
    "RemoteRoutes",
    "RemoteWebhooks",
    "SeenRoute",
    "ServerConnection",
    "TOKEN_VARIABLE",
    "is_server",
]
