# SPDX-License-Identifier: MIT
"""The HTTP receiver: each request is an event, and its answer says whether the sender may forget it.

================================== ===============================================================================
answer                             meaning
================================== ===============================================================================
202                                ``durable``: the event is stored; ``direct``: it was received
200                                ``linked``: every route has delivered it
400, 413                           this event cannot be taken; the same request fails again
429, 503, both with Retry-After    it cannot be taken now; send it again later
502                                ``linked``: a route has not delivered it; send it again with the same key
================================== ===============================================================================

Nothing is answered before the intake has answered. What is no event at all is answered by ``redrive.http``.
"""

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Never

from redrive.broker import HeaderValue, Message, random_id
from redrive.errors import InvalidMessage, InvalidSetting, MessageError, MessageTooLarge, RedriveError, Unavailable
from redrive.http import HttpAnswer, HttpRequest, HttpServer
from redrive.printable import one_line
from redrive.routes.ack_tree import Answer, Nack
from redrive.routes.parts import (
    ChoiceSetting,
    Delivery,
    EventReceiver,
    FlagSetting,
    Intake,
    ListSetting,
    OpenReceiver,
    TextSetting,
    WholeSetting,
    setting,
)
from redrive.tracing import TRACE_HEADERS

if TYPE_CHECKING:
    from redrive.routes.environment import PartEnvironment

_METHODS = ("POST", "PUT", "PATCH", "DELETE", "GET")
_PATH = "must begin with '/', have no blank and none of ?#%, and not begin with '/-/'"
_HEADER_NAME = TextSetting("must be the name of a header")
_LONGEST_ID = 1_024
_LONGEST_PATH = 1_000
_MOST_REASONS = 20
_USUAL_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class HttpReceiver(EventReceiver):
    """Takes each request for a path as an event.

    The ``Idempotency-Key`` of a request is the id of its event, so a client that repeats a request with the same key
    is safe. A request without one gets a new id, and is a new event whenever it is repeated.
    """

    kind: ClassVar[str] = "http"

    path: str = setting(TextSetting("must be a path, such as '/orders'"), "the path of the requests, such as /orders")
    methods: tuple[str, ...] = setting(ListSetting(ChoiceSetting(_METHODS)), "the methods that are allowed", ("POST",))
    max_bytes: int = setting(
        WholeSetting(1, 104_857_600), "how large a body may be, after it was decompressed", 1_048_576
    )
    json: bool = setting(
        FlagSetting(),
        "whether a body must be JSON if its content type is JSON or missing; otherwise: 400",
        default=True,
    )
    id_header: str = setting(_HEADER_NAME, "the header with the id of the event", "Idempotency-Key")
    keep_headers: tuple[str, ...] = setting(
        ListSetting(_HEADER_NAME), "headers of the request that the event gets, by their names in lower case", ()
    )

    @property
    def address(self) -> str:
        """The path."""
        return self.path

    def check(self) -> None:
        """See that the path can be reached, and that there is a method."""
        EventReceiver.check(self)
        is_plain = self.path.isascii() and self.path.isprintable() and not set(self.path) & set(" ?#%")
        if not is_plain or not self.path.startswith("/") or self.path.startswith("/-/"):
            raise InvalidSetting("path", self.path, _PATH)
        if len(self.path) > _LONGEST_PATH:
            raise InvalidSetting("path", self.path, f"must have {_LONGEST_PATH:,} characters at most")
        if not self.methods:
            raise InvalidSetting("methods", self.methods, "must name one method at least")

    def open(self, environment: "PartEnvironment") -> OpenReceiver:
        """Return the receiver at work; the path is answered when it runs."""
        return _OpenHttpReceiver(self, environment.http)


class _OpenHttpReceiver:
    """An HTTP receiver at work."""

    def __init__(self, settings: HttpReceiver, http: HttpServer) -> None:
        self._settings = settings
        self._http = http

    async def run(self, intake: Intake) -> None:
        """Answer requests until cancelled; those that have begun by then are answered."""

        async def answer(request: HttpRequest) -> HttpAnswer:
            try:
                message = event_of(request, self._settings)
                answered = await intake.accept(message)
            except (MessageError, Unavailable) as error:
                return refusal(error)
            return _acknowledgement(message, answered, self._settings.delivery)

        settings = self._settings
        await self._http.serve(settings.path, settings.methods, answer, settings.max_bytes)


def event_of(request: HttpRequest, settings: HttpReceiver) -> Message:
    """Return the event that a request is.

    Raises:
        MessageError: it is none.
    """
    content_type = request.headers.get("content-type") or None
    if settings.json and _is_json(content_type):
        _check_json(request.body)
        content_type = content_type or "application/json"
    wanted = (*TRACE_HEADERS, *(name.lower() for name in settings.keep_headers))
    kept: dict[str, HeaderValue] = {name: request.headers[name] for name in wanted if name in request.headers}
    return Message(request.body, id=_event_id(request, settings), content_type=content_type, headers=kept)


def _event_id(request: HttpRequest, settings: HttpReceiver) -> str:
    key = request.headers.get(settings.id_header.lower())
    if key is None:
        return random_id()
    if not key or len(key) > _LONGEST_ID or not key.isascii() or not key.isprintable():
        allowed = f"must have 1 to {_LONGEST_ID:,} characters, all of them letters, digits or signs of ASCII"
        raise InvalidMessage(settings.id_header, key, allowed)
    return key


def _is_json(content_type: str | None) -> bool:
    if content_type is None:
        return True
    plain = content_type.partition(";")[0].strip().lower()
    return plain == "application/json" or plain.endswith("+json")


def _check_json(body: bytes) -> None:
    try:
        json.loads(body.decode(), parse_constant=_refuse)  # JSON is UTF-8
    except (ValueError, RecursionError) as error:
        problem = "it is nested too deeply" if isinstance(error, RecursionError) else one_line(error, 200)
        allowed = f"must be JSON, or state its Content-Type: {problem}"
        raise InvalidMessage("body", f"{len(body):,} bytes", allowed) from None


def _refuse(constant: str) -> Never:
    raise ValueError(f"JSON has no {constant}")


def _acknowledgement(message: Message, answered: Answer, delivery: Delivery) -> HttpAnswer:
    """Return the answer for what the intake has said."""
    if isinstance(answered, Nack):
        reasons = [{"route": each.leg.route, "reason": one_line(each.text)} for each in answered.reasons]
        detail = "not every route has delivered the event; send it again with the same key"
        body = {"id": message.id, "error": "not-delivered", "detail": detail, "reasons": reasons[:_MOST_REASONS]}
        return HttpAnswer(502, body)
    return HttpAnswer(200 if delivery == "linked" else 202, {"id": message.id})


def refusal(error: RedriveError) -> HttpAnswer:
    """Return the answer for an event that was not taken."""
    body = {"error": error.code, "detail": one_line(error)}
    if not isinstance(error, Unavailable):
        return HttpAnswer(413 if isinstance(error, MessageTooLarge) else 400, body)
    asked = getattr(error, "retry_after", None)
    seconds = max(1, math.ceil(asked if isinstance(asked, int | float) else _USUAL_PAUSE))
    return HttpAnswer(429 if error.code == "receiver-full" else 503, body, (("retry-after", str(seconds)),))
