# SPDX-License-Identifier: MIT
"""What a failure says about itself: its status, and how long the server asks us to wait. Pure: no I/O, no clock.

It looks at attributes only, so that none of the libraries it understands has to be installed: httpx, requests,
aiohttp, urllib, azure-core, botocore, grpcio, google-api-core, and anything with a ``retry_after``.
"""

from datetime import UTC, datetime, timedelta
from itertools import islice
from types import CoroutineType

from redrive.errors import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TRANSIENT_STATUSES = frozenset({408, 425, 429, *range(500, 600)})
"""The HTTP statuses that are transient: a later attempt may succeed."""

NEVER = -1.0
"""A server's request not to retry at all."""

_BEYOND = 1 << 62
"""A number that stands for everything from there to infinity, which no wait lasts and no float has to hold."""

_LONGEST_HEADER = 64
"""No number or date is longer; a longer text is garbage and not parsed."""

_MOST_HEADERS = 1_000

_MOST_DETAILS_BYTES = 8_192

_IN_MILLISECONDS = ("retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after")
_RATE_LIMIT_RESET = ("ratelimit-reset", "x-ratelimit-reset")
_RATE_LIMIT_REMAINING = ("ratelimit-remaining", "x-ratelimit-remaining")
_PUSHBACK = "grpc-retry-pushback-ms"
_STATUS_DETAILS = "grpc-status-details-bin"
_WANTED = {*_IN_MILLISECONDS, *_RATE_LIMIT_RESET, *_RATE_LIMIT_REMAINING, _PUSHBACK, _STATUS_DETAILS, "retry-after"}

_GRPC_STATUSES = {"UNAVAILABLE": 503, "RESOURCE_EXHAUSTED": 429, "DEADLINE_EXCEEDED": 504}
_GRPC_PERMANENT = 400
_GRPC_PERMANENT_CODES = frozenset({
    "ABORTED",
    "ALREADY_EXISTS",
    "CANCELLED",
    "DATA_LOSS",
    "FAILED_PRECONDITION",
    "INTERNAL",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "OUT_OF_RANGE",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "UNIMPLEMENTED",
    "UNKNOWN",
})  # fmt: skip

# AWS reports throttling as status 400; only the code distinguishes it.
_AWS_THROTTLING = frozenset({
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "LimitExceededException",
    "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
    "TransactionInProgressException",
})  # fmt: skip


# The transport errors of httpx, requests, aiohttp, botocore and azure-core share no base class, only their subject.
_TRANSPORT_ERRORS = frozenset({
    "ClientConnectionError",  # aiohttp
    "ConnectionError",  # requests, botocore
    "HTTPClientError",  # botocore
    "NetworkError",  # httpx
    "RemoteProtocolError",  # httpx: closed in the middle of an answer
    "ServiceRequestError",  # azure-core
    "ServiceResponseError",  # azure-core
    "Timeout",  # requests
    "TimeoutException",  # httpx
    "ChunkedEncodingError",  # requests: closed in the middle of an answer
})  # fmt: skip


def is_transient(subject: object) -> bool:
    """Say whether an error or a response may be different next time; use it as ``on=`` or ``on_result=``.

    Yes for statuses 408, 425, 429 and 5xx, their gRPC and AWS counterparts, ``ConnectionError``, ``TimeoutError``, the
    transport errors of the usual HTTP clients, Redrive's own ``Unavailable``, and a group of only such errors.
    """
    status = status_of(subject)
    if status is not None:
        return status in TRANSIENT_STATUSES
    if isinstance(subject, ExceptionGroup):
        return all(is_transient(error) for error in subject.exceptions)
    if isinstance(subject, ConnectionError | TimeoutError | Unavailable):
        return True
    return isinstance(subject, Exception) and any(kind.__name__ in _TRANSPORT_ERRORS for kind in type(subject).__mro__)


def status_of(subject: object) -> int | None:
    """Return the HTTP status of an error or a response (or the equivalent of a gRPC code), if it has one."""
    for name in ("status_code", "status", "code"):
        status = _as_status(_attribute(subject, name))
        if status is not None:
            return status
    response = _attribute(subject, "response")
    if isinstance(response, dict):
        return _aws_status(response)
    return (
        None if response is None else _as_status(_attribute(response, "status_code") or _attribute(response, "status"))
    )


def server_delay(subject: object, unix_time: float) -> float | None:
    """Return the seconds that the server asks us to wait, ``NEVER`` (negative) for no retry, None if it says nothing.

    Dates without a zone are read as UTC, dates in the past as "now"; garbage, negative numbers and headers longer than
    any number or date say nothing.
    """
    headers = _wanted_headers(subject)
    if _PUSHBACK in headers:
        pushback = _number(headers[_PUSHBACK])
        return NEVER if pushback is None else pushback / 1_000.0
    for asked in (
        _retry_info(subject, headers.get(_STATUS_DETAILS)),
        *(_scaled(_number(headers.get(name)), 0.001) for name in _IN_MILLISECONDS),
        _delay(headers.get("retry-after"), unix_time),
        _delay(_attribute(subject, "retry_after"), unix_time),
    ):
        if asked is not None:
            return asked
    return _rate_limit_delay(subject, headers, unix_time)


def _attribute(subject: object, name: str) -> object:
    try:
        return getattr(subject, name, None)
    except Exception:  # noqa: BLE001 - a foreign property may raise anything; then there is no hint, and no new failure
        return None


def _as_status(value: object) -> int | None:
    if callable(value):  # grpc.RpcError.code() returns an enumeration
        value = _called(value)
    name = _attribute(value, "name")
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value) if 100 <= value <= 599 else None
    if not isinstance(name, str):
        return None
    # only gRPC's own names: an error of another library may have a status called FAILED
    return _GRPC_PERMANENT if name in _GRPC_PERMANENT_CODES else _GRPC_STATUSES.get(name)


def _called(method: object) -> object:
    try:
        found = method()  # type: ignore[operator]  # the caller has checked
    except Exception:  # noqa: BLE001 - as in _attribute; a method with other parameters is not the one we mean
        return None
    if isinstance(found, CoroutineType):  # an async method, which cannot be awaited here
        found.close()
        return None
    return found


def _aws_status(response: dict[object, object]) -> int | None:
    error, metadata = response.get("Error"), response.get("ResponseMetadata")
    code = error.get("Code") if isinstance(error, dict) else None
    if isinstance(code, str) and code in _AWS_THROTTLING:
        return 429
    return _as_status(metadata.get("HTTPStatusCode")) if isinstance(metadata, dict) else None


def _wanted_headers(subject: object) -> dict[str, object]:
    """Return the headers that may carry a hint, by lower-case name, from all places where a subject has headers."""
    found: dict[str, object] = {}
    for headers in _header_sources(subject):
        for key, value in _pairs(headers):
            name = key.decode("latin-1") if isinstance(key, bytes) else key
            if isinstance(name, str) and name.lower() in _WANTED:
                # grpc.aio's metadata has a list of values for each name
                found.setdefault(name.lower(), value[0] if isinstance(value, list) and value else value)
    return found


def _header_sources(subject: object) -> "Iterator[object]":
    yield _attribute(subject, "headers")
    response = _attribute(subject, "response")
    if isinstance(response, dict):
        metadata = response.get("ResponseMetadata")
        yield metadata.get("HTTPHeaders") if isinstance(metadata, dict) else None
    elif response is not None:
        yield _attribute(response, "headers")
    for name in ("trailing_metadata", "initial_metadata"):
        method = _attribute(subject, name)
        if callable(method):
            yield _called(method)


def _pairs(headers: object) -> "Iterable[tuple[object, object]]":
    items = _attribute(headers, "items")
    listed = _called(items) if callable(items) else headers
    try:
        return [(pair[0], pair[1]) for pair in islice(listed, _MOST_HEADERS)]  # type: ignore[call-overload]  # guarded
    except Exception:  # noqa: BLE001 - as in _attribute: these may be no headers at all
        return ()


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str) and len(value) <= _LONGEST_HEADER:
        return value.strip()
    return None


def _number(value: object) -> float | None:
    """Return a number that is written plainly; float() would take "nan", "1_000" and "infinity" as well."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(min(value, _BEYOND)) if value >= 0 else None
    text = _text(value)
    if text and text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    return None


def _scaled(number: float | None, factor: float) -> float | None:
    return None if number is None else number * factor


def _delay(value: object, unix_time: float) -> float | None:
    """Return the seconds of a Retry-After in any of its forms."""
    if isinstance(value, timedelta):
        return max(0.0, value.total_seconds())
    if isinstance(value, datetime):
        return _until(value, unix_time)
    number = _number(value)
    if number is not None:
        return number
    text = _text(value)
    return _until_date(text, unix_time) if text else None


def _until_date(text: str, unix_time: float) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        return _until(parsedate_to_datetime(text), unix_time)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _until(instant: datetime, unix_time: float) -> float | None:
    try:
        aware = instant.replace(tzinfo=UTC) if instant.utcoffset() is None else instant
        return max(0.0, aware.timestamp() - unix_time)
    except Exception:  # noqa: BLE001 - as in _attribute: a foreign time zone may raise anything
        return None


def _rate_limit_delay(subject: object, headers: dict[str, object], unix_time: float) -> float | None:
    """Return the reset time of a spent rate limit; a limit that is not spent is not the cause of this failure."""
    is_spent = any(_number(headers.get(name)) == 0 for name in _RATE_LIMIT_REMAINING)
    if not is_spent and status_of(subject) != 429:
        return None
    for name in _RATE_LIMIT_RESET:
        reset = _number(headers.get(name))
        if reset is not None:
            # the standard says seconds from now; GitHub and others say seconds since 1970
            return reset if reset < 1e9 else max(0.0, reset - unix_time)
    return None


def _retry_info(subject: object, packed: object) -> float | None:
    """Return the delay of a ``google.rpc.RetryInfo``, unpacked by the client library or still in the metadata."""
    details = _attribute(subject, "details")
    for detail in list(details)[:16] if isinstance(details, list | tuple) else ():
        delay = _attribute(detail, "retry_delay")
        seconds, nanos = _attribute(delay, "seconds"), _attribute(delay, "nanos")
        if isinstance(seconds, int) and isinstance(nanos, int):
            return min(max(0, seconds * 1_000_000_000 + nanos), _BEYOND) / 1e9
    if isinstance(packed, bytes) and len(packed) <= _MOST_DETAILS_BYTES:
        return _packed_retry_info(packed)
    return None


def _packed_retry_info(packed: bytes) -> float | None:
    """Find ``Status.details[].value.retry_delay`` in its wire format: three messages, two numbers."""
    for _, any_message in _fields(packed, wanted=3):
        any_fields = dict(_fields(any_message))
        if bytes_of(any_fields.get(1)).endswith(b"/google.rpc.RetryInfo"):
            delay = dict(_fields(bytes_of(dict(_fields(any_fields.get(2))).get(1))))
            seconds, nanos = delay.get(1, 0), delay.get(2, 0)
            if isinstance(seconds, int) and isinstance(nanos, int):
                return max(0.0, _signed(seconds) + _signed(nanos) / 1e9)
    return None


def bytes_of(value: object) -> bytes:
    """Return a length-delimited field, or nothing if the field is absent or of another kind."""
    return value if isinstance(value, bytes) else b""


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def _fields(message: object, wanted: int | None = None) -> "Iterator[tuple[int, int | bytes]]":
    """Yield the (number, value) pairs of a protocol buffer, up to the first byte that is not one."""
    data = bytes_of(message)
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        value: int | bytes
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
        elif kind in (1, 5):
            width = 8 if kind == 1 else 4
            value, at = data[at : at + width], at + width
        else:
            return
        if wanted is None or tag >> 3 == wanted:
            yield tag >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for index, byte in enumerate(data[at : at + 10]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number, at + index + 1
    return number, len(data)
