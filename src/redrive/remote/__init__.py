# SPDX-License-Identifier: MIT
"""Queues and failed messages behind a server: what a command does through the HTTP API instead of the database."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from redrive.remote.connection import TOKEN_VARIABLE, ServerConnection, is_server

if TYPE_CHECKING:
    from redrive.remote.access import RemoteAccess
    from redrive.remote.broker import RemoteBroker
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

_MODULES: Final = {
    "RemoteAccess": "access",
    "RemoteAttention": "overview",
    "RemoteBroker": "broker",
    "RemoteHistory": "overview",
    "RemoteJourneys": "overview",
    "RemotePipelines": "pipelines",
    "RemoteRecovery": "recovery",
    "RemoteRoutes": "routes",
    "RemoteWebhooks": "webhooks",
    "SeenRoute": "routes",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    # lazily: each of them loads a layer, and a command needs one of them at most
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
