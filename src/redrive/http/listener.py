# SPDX-License-Identifier: MIT
"""Listening at an address, and uvicorn as every server of Redrive uses it."""

import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import urlsplit

from redrive.clock import Clock, pause
from redrive.errors import InvalidSetting, MissingExtra

if TYPE_CHECKING:
    from uvicorn import Server
    from uvicorn.protocols.http.h11_impl import H11Protocol

Packet: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Packet]]
Send: TypeAlias = Callable[[Packet], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Packet, Receive, Send], Awaitable[None]]

_BACKLOG = 2_048
_LISTEN = "must be a host and a port, such as '127.0.0.1:8080'"


def host_and_port(listen: str, setting: str = "listen") -> tuple[str, int]:
    """Return the host and the port of an address.

    Args:
        listen: the address.
        setting: the name to blame in the error.

    Raises:
        InvalidSetting: it is no address.
    """
    try:
        parts = urlsplit(f"//{listen}")
        host, port = parts.hostname, parts.port
    except (TypeError, ValueError):
        raise InvalidSetting(setting, listen, _LISTEN) from None
    if not host or port is None or parts.path or parts.query or parts.username:
        raise InvalidSetting(setting, listen, _LISTEN)
    return host, port


def address_text(host: str, port: int) -> str:
    """Return an address as a URL has it."""
    return f"{f'[{host}]' if ':' in host else host}:{port}"


def bound_socket(listen: str, host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address.

    Args:
        listen: the address as it was given, for the error.
        host: its host.
        port: its port; 0: any that is free.

    Raises:
        InvalidSetting: the address cannot be listened at.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By this protocol asyncio knows that answers are to be sent at once (TCP_NODELAY). Without, the second part of an
    # answer waits until the client has acknowledged the first, which clients put off for 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)  # now, so that a client that comes before the task runs is not refused
    except OSError as error:
        listener.close()
        allowed = f"must be an address of this machine that no program listens at: {error.strerror or error}"
        raise InvalidSetting("listen", listen, allowed) from error
    listener.settimeout(0.0)
    return listener


def uvicorn_server(
    app: AsgiApp, extra: str, *, feature: str = "the HTTP receiver", grace: int | None = None
) -> "Server":
    """Return a server that leaves signals and the program's logging alone.

    Args:
        app: what it serves.
        extra: the extra of Redrive that brings what it needs.
        feature: what needs it, for the error.
        grace: seconds that requests have to end when it stops; None: as long as they take.

    Raises:
        MissingExtra: uvicorn is not installed.
    """
    try:
        from uvicorn import Config, Server
    except ImportError as error:
        raise MissingExtra(feature, extra) from error
    logging.getLogger("uvicorn").addHandler(_SILENT)  # without any, Python prints warnings to stderr
    config = Config(
        cast("Any", app),
        http="h11",  # the strict one, whatever else is installed
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=grace,
    )
    server = Server(config)
    cast("Any", server).capture_signals = nullcontext  # signals are the program's
    return server


_SILENT = logging.NullHandler()  # one object, which a logger takes once


async def sweep(server: "Server", clock: Clock, every: float) -> None:
    """End connections that have been without a request, or without an end, for a whole round; until cancelled."""
    seen: Mapping[H11Protocol, object] = {}
    while True:
        await pause(clock, every)
        idle = {each: each.cycle for each in cast("set[H11Protocol]", server.server_state.connections) if _idle(each)}
        for each, cycle in idle.items():
            if each in seen and seen[each] is cycle:
                each.transport.abort()
        seen = idle


def _idle(connection: "H11Protocol") -> bool:
    """Say whether no request of a connection is being answered, although its next one may have begun."""
    cycle = connection.cycle
    return cycle is None or cycle.response_complete or connection.transport.is_closing()  # pyright: ignore[reportUnnecessaryComparison] - it is None at first
