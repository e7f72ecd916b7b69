# SPDX-License-Identifier: MIT
"""The server: everything an operator or a program needs to know and do, over HTTP."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from redrive.server.app import create_app
    from redrive.server.desk import Desk, open_desk
    from redrive.server.process import ServerProcess
    from redrive.server.settings import ServerSettings, read_server_settings

__all__ = ["Desk", "ServerProcess", "ServerSettings", "create_app", "open_desk", "read_server_settings"]

_MODULES: Final = {
    "Desk": "desk",
    "ServerProcess": "process",
    "ServerSettings": "settings",
    "create_app": "app",
    "open_desk": "desk",
    "read_server_settings": "settings",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    # lazily: the process that does the work answers no requests, and spares what does
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
