# SPDX-License-Identifier: MIT
"""A request, its answer, and what serves them. Pure: no I/O, no clock, no randomness."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request whose body was read, decompressed and checked for its size.

    Attributes:
        method: in capitals.
        path: the path, without what stands behind a ``?``.
        headers: its headers, by their names in lower case.
        body: its body.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a request is answered with.

    Attributes:
        status: the status.
        body: JSON values.
        headers: more headers.
    """

    status: int
    body: object
    headers: tuple[tuple[str, str], ...] = ()


class HttpServer(Protocol):
    """The one HTTP server of a process, which all HTTP receivers share."""

    async def serve(
        self,
        path: str,
        methods: tuple[str, ...],
        answer: Callable[[HttpRequest], Awaitable[HttpAnswer]],
        max_bytes: int,
    ) -> None:
        """Answer the requests for a path until cancelled; what has begun by then is answered."""
        ...
