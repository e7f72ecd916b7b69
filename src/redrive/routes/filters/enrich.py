# SPDX-License-Identifier: MIT
"""The filter that asks a web service about each event, and adds the answer to its body.

What a status means is in ``routes.http_status``, as for the webhook sender.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal
from urllib.parse import quote, urlsplit

from redrive.broker import Message
from redrive.errors import ExpressionFailed, InvalidPayload, InvalidSetting, MessageError, MissingExtra
from redrive.http import client, request_rules
from redrive.parts import from_environment, hidden_secret
from redrive.printable import one_line
from redrive.routes.event_values import EventValues, PathSetting, body_value, json_value, kind_word, with_json
from redrive.routes.http_status import outcome_of
from redrive.routes.outcomes import Delivered, DestinationDown, Rejected, SendFailure, TryLater
from redrive.routes.parts import (
    ChoiceSetting,
    DurationSetting,
    LegFacts,
    OpenFilter,
    OutsideFilter,
    TableSetting,
    TextSetting,
    setting,
)

if TYPE_CHECKING:
    import httpx

    from redrive.routes.environment import PartEnvironment

_PLACE = re.compile(r"\{(\w+)\}")
_OURS: Final = frozenset({"connection", "content-length", "transfer-encoding"})
_MOST_READ: Final = 1_048_576
"""How many bytes of an answer are read."""

_LONGEST_REASON: Final = 500


@dataclass(frozen=True, slots=True, repr=False)
class EnrichFilter(OutsideFilter):
    """Asks a web service about an event, and puts the JSON of its answer into the event's body, an object, by a name.

    ``params`` are values of the event for the service: one whose name stands in braces in the URL, as in
    ``https://example.org/customers/{id}``, is put there, the others become its query. POST and PUT send the event's
    body. An answer without content is null. The values of ``headers`` may be ``env:`` and the name of an environment
    variable. The service may be asked again about the same event.
    """

    kind: ClassVar[str] = "enrich"

    url: str = setting(
        TextSetting("must be a URL, such as 'https://example.org/customers/{id}'"), "the web service that is asked"
    )
    into: str = setting(TextSetting("must be a name"), "the name in the event's body that gets the answer")
    params: tuple[tuple[str, str], ...] = setting(
        TableSetting(PathSetting()), "a JMESPath for each value of the URL or its query: {id: body.customer}", ()
    )
    method: Literal["GET", "POST", "PUT"] = setting(
        ChoiceSetting(("GET", "POST", "PUT")), "the method of the requests", "GET"
    )
    headers: tuple[tuple[str, str], ...] = setting(
        TableSetting(TextSetting()), "headers of every request; a value may be 'env:' and the name of a variable", ()
    )
    timeout: float = setting(DurationSetting(3_600.0), "how long the service may take for its answer", 10.0)

    def check(self) -> None:
        """See that the URL can be called, that its values are known, and that the headers can be sent."""
        _check_url(self.url)
        for name in _PLACE.findall(self.url):
            if name not in dict(self.params):
                raise InvalidSetting("url", self.url, f"has {{{name}}}; write params = {{{name} = 'body.{name}'}} too")
        request_rules.check_header_names((name for name, _ in self.headers), _OURS)
        request_rules.check_header_values(self.headers)

    def open(self, environment: "PartEnvironment") -> OpenFilter:
        """Return the filter at work; nothing is connected before it is needed.

        Raises:
            InvalidSetting: an environment variable that it needs is not there.
            MissingExtra: httpx is not installed.
        """
        try:
            import_module("httpx")  # better here than at the first event
        except ImportError as error:
            raise MissingExtra("the enrich filter", "routes") from error
        return _OpenEnrich(self, environment)

    def url_for(self, message: Message) -> tuple[str, dict[str, str]]:
        """Return the URL for an event, and its query.

        Raises:
            MessageError: the event does not have what they need.
        """
        values = EventValues(message)
        found = {name: _parameter(path, values.required(path)) for name, path in self.params}
        places = set(_PLACE.findall(self.url))
        for name in places & {name for name, text in found.items() if text in (".", "..")}:
            raise InvalidPayload(f"{found[name]!r} cannot stand in a URL: it would lead to another place")
        url = _PLACE.sub(lambda place: quote(found[place[1]], safe=""), self.url)
        return url, {name: text for name, text in found.items() if name not in places}

    def __str__(self) -> str:
        table = {name: value for name, value in self.to_table().items() if name != "kind"}
        if "headers" in table:
            table["headers"] = {name: hidden_secret(value) for name, value in table["headers"].items()}
        return f"{self.kind}({', '.join(f'{name}={value!r}' for name, value in table.items())})"

    def __repr__(self) -> str:
        return str(self)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise InvalidSetting("url", url, "must begin with http:// or https:// and a host") from None
    if not is_whole or parts.fragment or _PLACE.search(parts.netloc):
        allowed = "must begin with http:// or https:// and a host without braces, and have no #"
        raise InvalidSetting("url", url, allowed)
    if parts.username is not None or parts.password is not None:
        allowed = "must have no password: write it as headers = {Authorization = 'env:NAME'}"
        raise InvalidSetting("url", f"{parts.scheme}://{hidden_secret('')}@{parts.hostname}", allowed)


def _parameter(path: str, value: object) -> str:
    """Return a value of an event as a URL has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str) or not value:
        raise ExpressionFailed(path, f"its result is {kind_word(value) if value else 'empty'}, which no URL can have")
    if not value.isprintable():
        raise ExpressionFailed(path, "its result has control characters, which no URL can have")
    return value


class _OpenEnrich:
    """A web service that is asked. Connections are kept open between events."""

    def __init__(self, settings: EnrichFilter, environment: "PartEnvironment") -> None:
        self._settings = settings
        self._clock = environment.clock
        self._headers = {name.lower(): from_environment(f"headers.{name}", value) for name, value in settings.headers}
        self._client: httpx.AsyncClient | None = None

    async def apply(self, message: Message, leg: LegFacts) -> Sequence[Message] | SendFailure:
        try:
            body = body_value(message)
            if not isinstance(body, dict):
                raise InvalidPayload(f"the body is {kind_word(body)}; enrich adds to an object")
            status, headers, data = await self._asked(message)
            outcome = outcome_of(status, headers, self._clock.time(), said=_excerpt(data) if status >= 300 else "")
            if not isinstance(outcome, Delivered):
                return outcome
            return self._enriched(message, body, data)
        except MessageError as error:
            return Rejected(one_line(error, _LONGEST_REASON))
        except TimeoutError:
            return TryLater(f"no answer within {self._settings.timeout:g} s")
        except ConnectionError as error:
            return DestinationDown(str(error))

    def _enriched(self, message: Message, body: dict[str, Any], data: bytes) -> Sequence[Message] | SendFailure:
        if len(data) > _MOST_READ:
            return Rejected(f"the answer has more than {_MOST_READ:,} bytes")
        try:
            found = json_value(data) if data.strip() else None
        except ValueError as error:
            return TryLater(f"the answer is no JSON: {one_line(error, 200)}; it begins with {data[:60]!r}")
        return (with_json(message, {**body, self._settings.into: found}),)

    async def _asked(self, message: Message) -> "tuple[int, httpx.Headers, bytes]":
        """Return the status, the headers and the beginning of the body of the answer."""
        url, query = self._settings.url_for(message)
        headers = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "redrive"}
        content: bytes | None = None
        if self._settings.method != "GET":
            content, headers["content-type"] = message.body, message.content_type or "application/octet-stream"
        headers |= self._headers
        async with self._clock.timeout(self._settings.timeout):
            return await self._answer(url, query, headers, content)

    async def _answer(
        self, url: str, query: dict[str, str], headers: dict[str, str], content: bytes | None
    ) -> "tuple[int, httpx.Headers, bytes]":
        import httpx

        if self._client is None:
            self._client = client.new_client(self._settings.timeout)
        target = httpx.URL(url).copy_merge_params(query)
        data = bytearray()
        try:
            async with self._client.stream(self._settings.method, target, headers=headers, content=content) as response:
                async for piece in response.aiter_raw(65_536):
                    data += piece
                    if len(data) > _MOST_READ:  # the rest is not read, and the connection not used again
                        break
        except (httpx.LocalProtocolError, httpx.InvalidURL) as error:
            raise InvalidPayload(f"the request cannot be written as HTTP: {one_line(error, 200)}") from error
        except httpx.TransportError as error:
            raise ConnectionError(one_line(error, 200) or type(error).__name__) from error
        return response.status_code, response.headers, bytes(data)

    async def ended(self, message: Message, leg: LegFacts, *, is_delivered: bool) -> None:
        return

    async def close(self) -> None:
        closing, self._client = self._client, None
        if closing is not None:
            await closing.aclose()


def _excerpt(data: bytes) -> str:
    return one_line(" ".join(data[:4_096].decode(errors="replace").split()), 200)
