# SPDX-License-Identifier: MIT
"""The HTTP transport: each shipment is a request, and the status of the answer says what came of it.

======================= =================================== ===============
status                  outcome                             Retry-After
======================= =================================== ===============
2xx                     ``ShipmentSent``
408, 425, 429           ``ShipmentDelayed``                 is kept to
503                     ``DestinationAway``                 is kept to
502, 504                ``OutcomeUnknown``
any other 5xx           ``ShipmentDelayed``                 is kept to
409                     ``OutcomeUnknown`` if the
                        destination drops repetitions,
                        otherwise ``ShipmentRefused``
anything else           ``ShipmentRefused``
======================= =================================== ===============

502 and 504 come from a gateway, which does not know whether the server behind it has got the request. 409 is what a
destination answers while it still works on an earlier request with the same key, or because it has that. A destination
may mean something else: ``statuses`` says so. Without an answer it depends on how far the request has come: as soon as
its first byte may have left, it is unknown whether it has arrived.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from redrive.broker import DurationSetting, FlagSetting
from redrive.errors import InvalidSetting, MissingExtra
from redrive.http import StatusTableSetting, client, request_rules
from redrive.http.status import pause_of, words_by_status
from redrive.parts import ChoiceSetting, TableSetting, TextSetting, from_environment, hidden_secret, setting
from redrive.pipeline.shipment import (
    DestinationAway,
    OutcomeUnknown,
    ProbeOutcome,
    Shipment,
    ShipmentDelayed,
    ShipmentOutcome,
    ShipmentRefused,
    ShipmentSent,
)
from redrive.pipeline.shipment_names import UrlTemplateSetting, url_of
from redrive.pipeline.transport import OpenTransport, Transport, TransportEnvironment
from redrive.printable import one_line
from redrive.tracing import here

if TYPE_CHECKING:
    import httpx

OUTCOME_WORDS: Final = ("sent", "delayed", "away", "refused", "unknown")
"""What files call the outcomes."""

_KNOWN: Final = {408: "delayed", 425: "delayed", 429: "delayed", 502: "unknown", 503: "away", 504: "unknown"}
_OURS: Final = frozenset({"connection", "content-length", "host", "idempotency-key", "transfer-encoding"})
_FIRST_BYTE: Final = ("http11.send_request_headers.started", "http2.send_request_headers.started")


@dataclass(frozen=True, slots=True, repr=False)
class HttpTransport(Transport):
    """Sends each shipment to a URL, with its delivery id as ``Idempotency-Key``.

    The values of ``headers`` may be ``env:`` and the name of an environment variable, which is read when a pipeline
    starts. ``url`` and ``probe_url`` may have places, such as ``https://example.org/reports/{delivery_id}``. A request
    to ``probe_url`` is answered with 2xx if the destination has the shipment, and with 404 if not.
    """

    kind: ClassVar[str] = "http"

    url: str = setting(UrlTemplateSetting(), "where shipments are sent")
    method: Literal["POST", "PUT"] = setting(ChoiceSetting(("POST", "PUT")), "the method of the requests", "POST")
    headers: tuple[tuple[str, str], ...] = setting(
        TableSetting(TextSetting()), "headers of every request; a value may be 'env:' and the name of a variable", ()
    )
    timeout: float = setting(DurationSetting(3_600.0), "how long the destination may take for its answer", 60.0)
    deduplicates: bool = setting(  # pyright: ignore[reportIncompatibleMethodOverride] - a setting is read as a property
        FlagSetting(), "whether the destination drops a request whose Idempotency-Key it has seen", default=False
    )
    receipt: str = setting(TextSetting("must be the name of a header"), "the header of the answer to keep", "Location")
    probe_url: str | None = setting(UrlTemplateSetting(), "where to ask whether the destination has a shipment", None)
    probe_method: Literal["GET", "HEAD"] = setting(
        ChoiceSetting(("GET", "HEAD")), "the method of the requests that ask", "GET"
    )
    statuses: tuple[tuple[str, str], ...] = setting(
        StatusTableSetting(ChoiceSetting(OUTCOME_WORDS)),
        f"what statuses mean here, if not the usual: {', '.join(OUTCOME_WORDS)}",
        (),
    )
    verify_tls: bool = setting(FlagSetting(), "whether the certificate of the destination must be valid", default=True)

    @property
    def address(self) -> str:
        """Scheme, host and port: what is away when one URL there is."""
        return request_rules.server_of(self.url)

    @property
    def can_probe(self) -> bool:
        """Whether there is a URL to ask at."""
        return self.probe_url is not None

    def check(self) -> None:
        """See that headers can be sent."""
        request_rules.check_header_names((*(name for name, _ in self.headers), self.receipt), _OURS)
        request_rules.check_header_values(self.headers)

    def open(self, environment: TransportEnvironment) -> OpenTransport:
        """Return the transport at work; nothing is connected before it is needed.

        Raises:
            InvalidSetting: an environment variable that it needs is not there.
            MissingExtra: httpx is not installed.
        """
        if find_spec("httpx") is None:  # better here than at the first shipment
            raise MissingExtra("the HTTP transport", "pipeline")
        return _OpenHttpTransport(self, environment)

    def __str__(self) -> str:
        stated = {name: value for name, value in self.to_table().items() if name != "kind"}
        if "headers" in stated:
            stated["headers"] = {name: hidden_secret(value) for name, value in stated["headers"].items()}
        return f"{self.kind}({', '.join(f'{name}={value!r}' for name, value in stated.items())})"

    def __repr__(self) -> str:
        return str(self)


def usual_word(status: int, *, deduplicates: bool) -> str:
    """Return the word for what a status means if nothing else was agreed on."""
    if 200 <= status <= 299:
        return "sent"
    if status == 409 and deduplicates:
        return "unknown"
    return _KNOWN.get(status) or ("delayed" if 500 <= status <= 599 else "refused")


def outcome_of(word: str, reason: str, receipt: str, after: float | None) -> ShipmentOutcome:
    """Return the outcome that a word names."""
    outcomes: Mapping[str, ShipmentOutcome] = {
        "sent": ShipmentSent(receipt),
        "delayed": ShipmentDelayed(reason, after),
        "away": DestinationAway(reason, after),
        "refused": ShipmentRefused(reason),
        "unknown": OutcomeUnknown(reason),
    }
    return outcomes[word]


class _Progress:
    """How far a request has come: what httpx calls while it works."""

    def __init__(self) -> None:
        self.has_left = False

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        self.has_left = self.has_left or event in _FIRST_BYTE


class _OpenHttpTransport:
    """A URL that shipments are sent to. Each request has a connection of its own."""

    def __init__(self, settings: HttpTransport, environment: TransportEnvironment) -> None:
        self._settings = settings
        self._clock = environment.clock
        self._words = words_by_status("statuses", settings.statuses)
        self._headers = {name.lower(): from_environment(f"headers.{name}", value) for name, value in settings.headers}
        self._client: httpx.AsyncClient | None = None

    async def send(self, shipment: Shipment) -> ShipmentOutcome:
        import httpx

        progress = _Progress()
        try:
            url = url_of("url", self._settings.url, shipment)
            async with self._clock.timeout(self._settings.timeout):
                response = await self._answered(self._settings.method, url, shipment, progress)
        except InvalidSetting as error:
            return ShipmentRefused(str(error))
        except httpx.LocalProtocolError as error:  # this request cannot be written as HTTP, and never will be
            return ShipmentRefused(f"it cannot be sent: {one_line(error, client.EXCERPT)}")
        except TimeoutError:
            return self._lost(progress, f"no answer after {self._settings.timeout:g} s")
        except Exception as error:  # noqa: BLE001 - whatever went wrong, what counts is how far the request has come
            return self._lost(progress, one_line(error, client.EXCERPT) or type(error).__name__)
        try:
            return await self._outcome(response)
        finally:
            await response.aclose()

    async def probe(self, shipment: Shipment) -> ProbeOutcome:
        if self._settings.probe_url is None:
            return OutcomeUnknown("there is no URL to ask at")
        try:
            url = url_of("probe_url", self._settings.probe_url, shipment)
            async with self._clock.timeout(self._settings.timeout):
                response = await self._answered(self._settings.probe_method, url, None, _Progress())
                await response.aclose()
        except Exception as error:  # noqa: BLE001 - nothing is known then
            return OutcomeUnknown(
                f"{self._settings.address}: {one_line(error, client.EXCERPT) or type(error).__name__}"
            )
        if response.is_success:
            return ShipmentSent(self._receipt(response))
        if response.status_code == 404:
            return ShipmentDelayed("the destination does not have it")
        return OutcomeUnknown(f"the destination was asked whether it has it, and answered {response.status_code}")

    async def close(self) -> None:
        closing, self._client = self._client, None
        if closing is not None:
            await closing.aclose()

    async def _answered(
        self, method: str, url: str, shipment: Shipment | None, progress: _Progress
    ) -> "httpx.Response":
        """Return the answer to a request, of which only the head was read."""
        if self._client is None:
            silence, verify_tls = self._settings.timeout, self._settings.verify_tls
            self._client = client.new_client(
                self._settings.timeout, silence=silence, verify_tls=verify_tls, keeps_connections=False
            )
        headers = {"user-agent": "redrive", "accept-encoding": "identity"}
        if shipment is not None:
            headers["content-type"] = shipment.content_type or "application/octet-stream"
        headers |= here() | self._headers
        if shipment is not None:
            headers["idempotency-key"] = request_rules.sendable_key(shipment.delivery_id)
        request = self._client.build_request(
            method, url, headers=headers, content=None if shipment is None else shipment.body
        )
        request.extensions["trace"] = progress
        return await self._client.send(request, stream=True)

    async def _outcome(self, response: "httpx.Response") -> ShipmentOutcome:
        status = response.status_code
        word = self._words.get(status) or usual_word(status, deduplicates=self._settings.deduplicates)
        said = await client.excerpt_of(response, self._clock, self._settings.timeout)
        reason = f"the destination answered {status}" + (f": {said}" if said else "")
        return outcome_of(word, reason, self._receipt(response), pause_of(status, response.headers, self._clock.time()))

    def _receipt(self, response: "httpx.Response") -> str:
        return one_line(response.headers.get(self._settings.receipt, ""), client.EXCERPT)

    def _lost(self, progress: _Progress, problem: str) -> ShipmentOutcome:
        reason = f"{self._settings.address}: {problem}"
        return OutcomeUnknown(reason) if progress.has_left else DestinationAway(reason)
