# SPDX-License-Identifier: MIT
"""The webhook sender: each event is a request, and the status of the answer says what became of it.

What a status means is in ``routes.http_status``. A destination that cannot be reached is down; one that takes longer
than the timeout is tried again later. Requests are signed as https://www.standardwebhooks.com describes, if there is a
secret.
"""

import base64
import binascii
import hashlib
import hmac
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import SplitResult, urlsplit

from redrive.broker import Message
from redrive.errors import InvalidSetting, MissingExtra
from redrive.printable import one_line
from redrive.routes.http_status import OUTCOME_WORDS, checked_overrides, outcome_of
from redrive.routes.outcomes import DestinationDown, Rejected, SendOutcome, TryLater
from redrive.routes.parts import (
    ChoiceSetting,
    DurationSetting,
    EventSender,
    FlagSetting,
    ListSetting,
    OpenSender,
    Table,
    TableSetting,
    TextSetting,
    setting,
)

if TYPE_CHECKING:
    import httpx

    from redrive.routes.environment import PartEnvironment

_FROM_ENVIRONMENT = "env:"
_SECRET_PREFIX = "whsec_"  # noqa: S105 - no secret, but what every secret begins with
_SECRET = "must be 'whsec_' and 24 to 64 random bytes in base64, or 'env:' and the name of a variable with that"  # noqa: S105 - as above
_HIDDEN = "***"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = frozenset({
    "connection", "content-length", "content-type", "host", "idempotency-key", "transfer-encoding",
    "webhook-id", "webhook-signature", "webhook-timestamp",
})  # fmt: skip
_TRACE_HEADERS = ("traceparent", "tracestate")

_LONGEST_KEY = 255
_MOST_CONNECTIONS = 64
_LONGEST_CONNECTING_S = 10.0
_LONGEST_READING_S = 5.0
"""For the body of an answer, whose status is known by then."""

_MOST_READ = 65_536
_EXCERPT = 200


@dataclass(frozen=True, slots=True)
class StatusTableSetting(TableSetting):
    """Words for outcomes, by statuses; YAML and Python may write a status as a number."""

    def checked(self, name: str, value: object) -> tuple[tuple[str, Any], ...]:
        """Return it, with statuses as texts."""
        if isinstance(value, dict):
            value = {str(key) if type(key) is int else key: one for key, one in value.items()}
        pairs = TableSetting.checked(self, name, value)
        checked_overrides(name, pairs)
        return pairs


@dataclass(frozen=True, slots=True, repr=False)
class WebhookSender(EventSender):
    """Sends each event to a URL.

    ``secret`` and the values of ``headers`` may be ``env:`` and the name of an environment variable, which is read when
    a route starts: so no secret has to be in a file or in the database.
    """

    kind: ClassVar[str] = "webhook"

    url: str = setting(TextSetting("must be a URL, such as 'https://example.org/hook'"), "where events are sent")
    method: Literal["POST", "PUT", "PATCH"] = setting(
        ChoiceSetting(("POST", "PUT", "PATCH")), "the method of the requests", "POST"
    )
    headers: tuple[tuple[str, str], ...] = setting(
        TableSetting(TextSetting()), "headers of every request; a value may be 'env:' and the name of a variable", ()
    )
    pass_headers: tuple[str, ...] = setting(
        ListSetting(TextSetting("must be the name of a header")), "headers of the event that the request gets", ()
    )
    timeout: float = setting(DurationSetting(3_600.0), "how long the destination may take for its answer", 30.0)
    secret: str | None = setting(
        TextSetting(_SECRET), "signs requests as Standard Webhooks do; 'env:NAME' reads it", None
    )
    statuses: tuple[tuple[str, str], ...] = setting(
        StatusTableSetting(ChoiceSetting(OUTCOME_WORDS)),
        f"what statuses mean here, if not the usual: {', '.join(OUTCOME_WORDS)}",
        (),
    )
    verify_tls: bool = setting(FlagSetting(), "whether the certificate of the destination must be valid", default=True)

    @property
    def destination(self) -> str:
        """Scheme, host and port: what is down when one URL there is."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
        return f"{parts.scheme}://{host}:{parts.port or _DEFAULT_PORTS[parts.scheme]}"

    def check(self) -> None:
        """See that the URL can be called, that headers can be sent, and that a secret is one."""
        EventSender.check(self)
        _check_url(self.url)
        for name in (*(name for name, _ in self.headers), *self.pass_headers):
            if not _TOKEN.fullmatch(name) or name.lower() in _OURS:
                raise InvalidSetting("headers", name, f"must be the name of a header, and none of: {_listed()}")
        for name, value in self.headers:
            if not (value.isascii() and value.isprintable()):
                raise InvalidSetting(f"headers.{name}", _HIDDEN, "must be printable ASCII")
        if self.secret is not None and not self.secret.startswith(_FROM_ENVIRONMENT):
            signing_key(self.secret)

    def open(self, environment: "PartEnvironment") -> OpenSender:
        """Return the sender at work; nothing is connected before it is needed.

        Raises:
            InvalidSetting: an environment variable that it needs is not there, or has no secret.
            MissingExtra: httpx is not installed.
        """
        if find_spec("httpx") is None:  # better here than at the first event
            raise MissingExtra("the webhook sender", "routes")
        return _OpenWebhook(self, environment)

    def __str__(self) -> str:
        shown = {name: value for name, value in _without_secrets(self.to_table()).items() if name != "kind"}
        return f"{self.kind}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def __repr__(self) -> str:
        return str(self)


def _without_secrets(table: Table) -> Table:
    if "secret" in table:
        table["secret"] = _hidden(table["secret"])
    if "headers" in table:
        table["headers"] = {name: _hidden(value) for name, value in table["headers"].items()}
    return table


def _hidden(value: str) -> str:
    return value if value.startswith(_FROM_ENVIRONMENT) else _HIDDEN


def _listed() -> str:
    return ", ".join(sorted(_OURS))


def _check_url(url: str) -> None:
    if not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidSetting("url", url, "must have no blanks and ASCII only: write other characters as %xx")
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in _DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole, parts = False, SplitResult("", "", "", "", "")
    if parts.username is not None or parts.password is not None:
        allowed = "must have no password: write it as headers = {Authorization = 'env:NAME'}"
        raise InvalidSetting("url", f"{parts.scheme}://{_HIDDEN}@{parts.hostname}", allowed)
    if not is_whole or parts.fragment:
        raise InvalidSetting("url", url, "must begin with http:// or https:// and a host, and have no #")


def from_environment(name: str, value: str) -> str:
    """Return a value that may be kept in an environment variable.

    Args:
        name: what the setting is called.
        value: the value, or ``env:`` and the name of a variable.

    Raises:
        InvalidSetting: there is no such variable, or it has what no header can have.
    """
    if not value.startswith(_FROM_ENVIRONMENT):
        return value
    variable = value.removeprefix(_FROM_ENVIRONMENT)
    found = os.environ.get(variable, "").strip()
    if not found:
        raise InvalidSetting(name, value, f"needs the environment variable {variable!r}: set it where routes run")
    if not (found.isascii() and found.isprintable()):
        raise InvalidSetting(name, value, f"needs printable ASCII in the environment variable {variable!r}")
    return found


# --- signing


def signing_key(secret: str) -> bytes:
    """Return the key of a secret.

    Raises:
        InvalidSetting: it is none. The error does not show it.
    """
    try:
        key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(_SECRET_PREFIX) or not 24 <= len(key) <= 64:
        raise InvalidSetting("secret", _HIDDEN, _SECRET)
    return key


def signature(key: bytes, event_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a request, as Standard Webhooks define it."""
    signed = f"{event_id}.{timestamp}.".encode() + body
    return f"v1,{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}"


def sendable_key(key: str) -> str:
    """Return a key as a header can have it: itself, or its hash if it is too long or no plain ASCII."""
    is_plain = key.isascii() and key.isprintable() and " " not in key
    return key if is_plain and len(key) <= _LONGEST_KEY else hashlib.sha256(key.encode()).hexdigest()


# --- at work


class _OpenWebhook:
    """A webhook sender at work. It keeps connections open between events."""

    def __init__(self, settings: WebhookSender, environment: "PartEnvironment") -> None:
        self._settings = settings
        self._clock = environment.clock
        self._overrides = checked_overrides("statuses", settings.statuses)
        self._headers = {name: from_environment(f"headers.{name}", value) for name, value in settings.headers}
        secret = settings.secret
        self._key = None if secret is None else signing_key(from_environment("secret", secret))
        self._client: httpx.AsyncClient | None = None

    async def send(self, message: Message, key: str) -> SendOutcome:
        """Send an event, and say what came of it."""
        import httpx

        try:
            headers = self._headers_of(message, sendable_key(key))
            async with self._clock.timeout(self._settings.timeout):
                response = await self._begin(headers, message.body)
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout):
            return TryLater(f"no answer from {self._settings.destination} after {self._settings.timeout:g} s")
        except httpx.LocalProtocolError as error:  # this request cannot be written as HTTP, and never will be
            return Rejected(f"the event cannot be sent: {one_line(error, _EXCERPT)}")
        except httpx.TransportError as error:
            return DestinationDown(f"{self._settings.destination}: {one_line(error, _EXCERPT) or type(error).__name__}")
        try:
            said = await self._excerpt(response)
            return outcome_of(response.status_code, response.headers, self._clock.time(), self._overrides, said)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Disconnect."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _begin(self, headers: dict[bytes, bytes], body: bytes) -> "httpx.Response":
        """Return the answer to a request, of which only the head was read."""
        if self._client is None:
            self._client = _new_client(self._settings)
        request = self._client.build_request(self._settings.method, self._settings.url, headers=headers, content=body)
        return await self._client.send(request, stream=True)

    def _headers_of(self, message: Message, key: str) -> dict[bytes, bytes]:
        """Return the headers of the request for an event; later ones replace earlier ones."""
        named = {name.lower(): value for name, value in message.headers.items() if value is not None}
        wanted = (*_TRACE_HEADERS, *self._settings.pass_headers)
        headers = {"user-agent": "redrive", "accept-encoding": "identity"}
        headers |= {name.lower(): _text(named[name.lower()]) for name in wanted if name.lower() in named}
        headers |= {name.lower(): value for name, value in self._headers.items()}
        headers |= {"content-type": message.content_type or "application/octet-stream", "idempotency-key": key}
        if self._key is not None:
            now = int(self._clock.time())
            headers |= {"webhook-id": key, "webhook-timestamp": str(now)}
            headers["webhook-signature"] = signature(self._key, key, now, message.body)
        return {name.encode(): value.strip().encode() for name, value in headers.items()}

    async def _excerpt(self, response: "httpx.Response") -> str:
        """Return the beginning of what the destination said, on one line; the status counts whether it ends or not."""
        import httpx

        said = bytearray()
        with suppress(TimeoutError, httpx.HTTPError):
            async with self._clock.timeout(min(self._settings.timeout, _LONGEST_READING_S)):
                async for piece in response.aiter_raw(_MOST_READ):
                    said += piece
                    if len(said) >= _MOST_READ:  # the rest is not read, and the connection not used again
                        break
        is_text = response.headers.get("content-encoding", "identity") == "identity"
        return one_line(" ".join(said[:4_096].decode(errors="replace").split()), _EXCERPT) if is_text else ""


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _new_client(settings: WebhookSender) -> "httpx.AsyncClient":
    import httpx

    connecting = min(settings.timeout / 2, _LONGEST_CONNECTING_S)  # before the whole time is over: then it is down
    return httpx.AsyncClient(
        verify=settings.verify_tls,
        follow_redirects=False,
        timeout=httpx.Timeout(settings.timeout, connect=connecting, pool=None),
        limits=httpx.Limits(max_connections=_MOST_CONNECTIONS, max_keepalive_connections=_MOST_CONNECTIONS),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # no event may change what the next one sends
    )
