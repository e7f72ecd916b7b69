# SPDX-License-Identifier: MIT
"""The client of NATS, which the receiver and the sender share."""

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final

from redrive.errors import InvalidSetting, MissingExtra
from redrive.parts import ServerUrlSetting

if TYPE_CHECKING:
    from nats.aio.client import Client

NATS_URL: Final = ServerUrlSetting(
    ("nats", "tls", "ws", "wss"), 4222, "nats://user:password@host:4222", has_several=True
)

RESERVED: Final = "nats-"
"""How the headers begin that are meant for a server; sent on, one of them could empty the stream it is sent to."""

_TOKEN: Final = re.compile(r"[^\s.*>]+")
_NAME: Final = re.compile(r"[^\s.*>/\\]+")


def require_nats() -> None:
    """See that the library is installed.

    Raises:
        MissingExtra: it is not.
    """
    try:
        import_module("nats.js")
    except ImportError as error:
        raise MissingExtra("NATS JetStream", "nats") from error


async def nats_client(url: str, seconds: float, on_closed: Callable[[], Awaitable[None]]) -> "Client":
    """Connect.

    A connection that is lost stays so, and a new one is made by the caller: the library's own way to reconnect keeps
    what is published meanwhile and says nothing about what became of it.

    Args:
        url: the real URLs.
        seconds: how long to wait for an answer.
        on_closed: called when the connection is lost or closed.
    """
    from nats.aio.client import Client

    async def ignore(_: Exception) -> None:
        """Keep the library from logging: whatever fails is raised or closes the connection."""

    client = Client()
    try:
        await client.connect(
            url.split(","),
            connect_timeout=seconds,  # type: ignore[arg-type]  # any number will do
            allow_reconnect=False,
            error_cb=ignore,
            closed_cb=on_closed,
        )
    except BaseException:
        await close_nats(client)
        raise
    return client


async def close_nats(client: "Client") -> None:
    """Disconnect, whatever the state of the connection is."""
    from nats.errors import Error

    with suppress(Error, OSError):
        await client.close()


def check_subject(name: str, subject: str, *, wildcards: bool) -> None:
    """See that a subject is one."""
    tokens = subject.split(".")
    is_tail = wildcards and tokens[-1] == ">"
    body = tokens[:-1] if is_tail else tokens
    if not all(_TOKEN.fullmatch(token) or (wildcards and token == "*") for token in body):  # noqa: S105 - no secret
        also = ", with * and > as wildcards" if wildcards else ""
        raise InvalidSetting(name, subject, f"must be words with dots between them{also}")


def check_name(name: str, value: str) -> None:
    """See that a text can be the name of a stream or of a consumer."""
    if not _NAME.fullmatch(value):
        raise InvalidSetting(name, value, "must be a word without dots, slashes, wildcards and blanks")


def takes(pattern: str, subject: str) -> bool:
    """Whether a subject is one of those that a pattern with wildcards stands for."""
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted, is_long_enough = wanted[:-1], len(given) >= len(wanted)
        given = given[: len(wanted)]
    else:
        is_long_enough = len(given) == len(wanted)
    return is_long_enough and all(one in ("*", other) for one, other in zip(wanted, given, strict=False))
