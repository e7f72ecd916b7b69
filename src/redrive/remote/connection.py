# SPDX-License-Identifier: MIT
"""One server: requests to its API, pages of lists, and its problems as errors."""

import re
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote, urlsplit

from redrive import connection_url
from redrive.errors import EngineUnavailable, MissingExtra, ProblemReported

if TYPE_CHECKING:
    from httpx import AsyncBaseTransport, AsyncClient, Response

TOKEN_VARIABLE: Final = "REDRIVE_TOKEN"  # noqa: S105 - the name of a variable
"""The environment variable that has the token: other users of the machine can read command lines."""

_PREFIX: Final = "/api/v1"
_LARGEST_PAGE: Final = 1_000
_NEXT: Final = re.compile(r'<([^>]*)>; rel="next"')
_TIMEOUT_S: Final = 60.0
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def is_server(url: str) -> bool:
    """Say whether a URL is that of a server, not of a database."""
    return url.lower().startswith(("http://", "https://"))


class ServerConnection:
    """The API of one server. Use it as ``async with ServerConnection(url, token) as server``.

    Args:
        url: where the server is: ``https://redrive.example.com``.
        token: says who asks; None: the request carries no token, which is enough on the server's own machine.
        transport: what carries requests instead of the network.

    Raises:
        InvalidSetting: the URL cannot be used.
        MissingExtra: httpx is not installed.
    """

    def __init__(self, url: str, token: str | None = None, *, transport: "AsyncBaseTransport | None" = None) -> None:
        self.url = _checked(url, has_token=token is not None)
        self._client = _client(self.url, token, transport)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, traceback)

    async def get(self, path: str, **asked: object) -> Any:  # noqa: ANN401 - what JSON has
        """Return what is at a path of the API."""
        return (await self._request("GET", path, asked)).json()

    async def some(self, path: str, limit: int, **asked: object) -> list[Any]:
        """Return the first of a list, from as many pages as that takes."""
        found: list[Any] = []
        where, query = path, {**asked, "limit": min(limit, _LARGEST_PAGE)}
        while True:
            response = await self._request("GET", where, query)
            found += response.json()
            link = _NEXT.search(response.headers.get("link", ""))
            if link is None or len(found) >= limit:
                return found[:limit]
            where, query = link[1].removeprefix(_PREFIX), {}

    async def send(self, method: str, path: str, body: object = None, key: str | None = None) -> Any:  # noqa: ANN401 - as get
        """Ask for a change; return the answer.

        Args:
            method: how.
            path: where.
            body: what JSON has; None: there is none.
            key: names the request: the same key twice is one request.
        """
        return (await self._request(method, path, {}, body, key)).json()

    async def _request(
        self, method: str, path: str, asked: Mapping[str, object], body: object = None, key: str | None = None
    ) -> "Response":
        from httpx import HTTPError, InvalidURL

        query: dict[str, Any] = {
            name: _query_value(value) for name, value in asked.items() if value is not None and value != ""
        }
        headers = {} if key is None else {"idempotency-key": key}
        try:
            response = await self._client.request(
                method, _PREFIX + path, params=query or None, json=body, headers=headers
            )
        except (HTTPError, InvalidURL, OSError) as error:
            problem = f"{type(error).__name__}{f': {error}' if str(error) else ''}"
            raise EngineUnavailable(
                f"the server at {self.url} does not answer ({problem}); is redrive serve running there?"
            ) from error
        if response.status_code >= 400:
            raise _problem(response, self.url)
        return response


def quoted(name: str) -> str:
    """Return a name as one part of a path."""
    return quote(name, safe="")


def _query_value(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _checked(url: str, *, has_token: bool) -> str:
    parts = urlsplit(url)
    if not is_server(url) or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise connection_url.wrong("server", url, "must be the address of a server: https://redrive.example.com")
    if has_token and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        problem = "must begin with https: without it, others could read the token on its way"
        raise connection_url.wrong("server", url, problem)
    return url.rstrip("/")


def _client(url: str, token: str | None, transport: "AsyncBaseTransport | None") -> "AsyncClient":
    try:
        from ssl import PROTOCOL_TLS_CLIENT, SSLContext

        from httpx import AsyncClient

        from redrive.http import client
    except ImportError as error:
        raise MissingExtra("a server instead of a database", "server") from error
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    # Without TLS no certificate is needed, and to read them takes longer than most requests. No redirect is followed.
    verify = client.trusted_tls() if url.lower().startswith("https:") else SSLContext(PROTOCOL_TLS_CLIENT)
    return AsyncClient(base_url=url, headers=headers, timeout=_TIMEOUT_S, transport=transport, verify=verify)


def _problem(response: "Response", url: str) -> ProblemReported | EngineUnavailable:
    """Return the error that a server reports."""
    try:
        answer = response.json()
        return ProblemReported(str(answer["code"]), str(answer["detail"]), answer.get("fix"), response.status_code)
    except (ValueError, KeyError, TypeError):  # not ours: a proxy's page, or another program's
        return EngineUnavailable(f"{url} answered {response.status_code}, and not as a Redrive server does")
