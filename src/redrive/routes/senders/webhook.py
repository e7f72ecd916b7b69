# SPDX-License-Identifier: MIT
"""The webhook sender: each event is a request, and the status of the answer says what became of it.

What a status means is in ``routes.http_status``. A destination that cannot be reached is down; one that takes longer
than the timeout is tried again later. Requests are signed as https://www.standardwebhooks.com describes, if there is a
secret.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, Literal

from redrive.broker import Message
from redrive.errors import MissingExtra
from redrive.http import StatusTableSetting, client, request_rules, status
from redrive.http.signing import SECRET_FORM, signature, signing_key
from redrive.parts import from_environment, hidden_secret
from redrive.printable import one_line
from redrive.routes.http_status import OUTCOME_WORDS, outcome_of
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
from redrive.tracing import TRACE_HEADERS

if TYPE_CHECKING:
    import httpx

    from redrive.routes.environment import PartEnvironment

_OURS = frozenset({
    "connection", "content-length", "content-type", "host", "idempotency-key", "transfer-encoding",
    "webhook-id", "webhook-signature", "webhook-timestamp",
})  # fmt: skip


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
        TextSetting(SECRET_FORM), "signs requests as Standard Webhooks do; 'env:NAME' reads it", None
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
        return request_rules.server_of(self.url)

    def check(self) -> None:
        """See that the URL can be called, that headers can be sent, and that a secret is one."""
        EventSender.check(self)
        request_rules.check_url("url", self.url)
        request_rules.check_header_names((*(name for name, _ in self.headers), *self.pass_headers), _OURS)
        request_rules.check_header_values(self.headers)
        if self.secret is not None and hidden_secret(self.secret) != self.secret:
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
        table["secret"] = hidden_secret(table["secret"])
    if "headers" in table:
        table["headers"] = {name: hidden_secret(value) for name, value in table["headers"].items()}
    return table


# --- at work


class _OpenWebhook:
    """A webhook sender at work. It keeps connections open between events."""

    def __init__(self, settings: WebhookSender, environment: "PartEnvironment") -> None:
        self._settings = settings
        self._clock = environment.clock
        self._overrides = status.words_by_status("statuses", settings.statuses)
        self._headers = {name: from_environment(f"headers.{name}", value) for name, value in settings.headers}
        secret = settings.secret
        self._key = None if secret is None else signing_key(from_environment("secret", secret))
        self._client: httpx.AsyncClient | None = None

    async def send(self, message: Message, key: str) -> SendOutcome:
        """Send an event, and say what came of it."""
        import httpx

        try:
            headers = self._headers_of(message, request_rules.sendable_key(key))
            async with self._clock.timeout(self._settings.timeout):
                response = await self._begin(headers, message.body)
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout):
            return TryLater(f"no answer from {self._settings.destination} after {self._settings.timeout:g} s")
        except httpx.LocalProtocolError as error:  # this request cannot be written as HTTP, and never will be
            return Rejected(f"the event cannot be sent: {one_line(error, client.EXCERPT)}")
        except httpx.TransportError as error:
            return DestinationDown(
                f"{self._settings.destination}: {one_line(error, client.EXCERPT) or type(error).__name__}"
            )
        try:
            said = await client.excerpt_of(response, self._clock, self._settings.timeout)
            return outcome_of(response.status_code, response.headers, self._clock.time(), self._overrides, said)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Disconnect."""
        closing, self._client = self._client, None
        if closing is not None:
            await closing.aclose()

    async def _begin(self, headers: dict[bytes, bytes], body: bytes) -> "httpx.Response":
        """Return the answer to a request, of which only the head was read."""
        if self._client is None:
            timeout = self._settings.timeout
            self._client = client.new_client(timeout, silence=timeout, verify_tls=self._settings.verify_tls)
        request = self._client.build_request(self._settings.method, self._settings.url, headers=headers, content=body)
        return await self._client.send(request, stream=True)

    def _headers_of(self, message: Message, key: str) -> dict[bytes, bytes]:
        """Return the headers of the request for an event; later ones replace earlier ones."""
        named = {name.lower(): value for name, value in message.headers.items() if value is not None}
        wanted = (*TRACE_HEADERS, *self._settings.pass_headers)
        headers = {"user-agent": "redrive", "accept-encoding": "identity"}
        headers |= {name.lower(): _text(named[name.lower()]) for name in wanted if name.lower() in named}
        headers |= {name.lower(): value for name, value in self._headers.items()}
        headers |= {"content-type": message.content_type or "application/octet-stream", "idempotency-key": key}
        if self._key is not None:
            now = int(self._clock.time())
            headers |= {"webhook-id": key, "webhook-timestamp": str(now)}
            headers["webhook-signature"] = signature(self._key, key, now, message.body)
        return {name.encode(): value.strip().encode() for name, value in headers.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
