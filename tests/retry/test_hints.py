# SPDX-License-Identifier: MIT
"""What failures say about themselves, read from the real objects of the libraries they come from."""

import asyncio
import enum
import io
import math
import re
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from email.message import Message
from email.utils import format_datetime
from http import HTTPStatus
from types import SimpleNamespace

import grpc
import httpx
import pytest
import requests
from azure.core.exceptions import HttpResponseError, ServiceRequestError
from botocore.exceptions import ClientError, EndpointConnectionError
from google.protobuf import any_pb2, duration_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status
from hypothesis import example, given
from hypothesis import strategies as st

from redrive.errors import AttemptTimeout, CircuitOpen, InvalidSetting
from redrive.retry.hints import NEVER, TRANSIENT_STATUSES, is_transient, server_delay, status_of
from tests.patience import PATIENCE_S

NOW = 1_767_484_800.0
"""Sunday 4 January 2026, 00:00 UTC."""


class Failed(Exception):
    """A plain exception with whatever attributes a library would give it."""

    def __init__(self, **attributes):
        super().__init__("failed")
        self.__dict__.update(attributes)


def short(value):
    """What a case is called: the same in every process, so without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:50]


def delay_of(**headers):
    return server_delay(Failed(headers={name.replace("_", "-"): value for name, value in headers.items()}), NOW)


# --- the real objects -------------------------------------------------------------------------------------------------


def httpx_response(status, headers):
    return httpx.Response(status, headers=headers, request=httpx.Request("GET", "http://example.test"))


def httpx_error(status, headers):
    try:
        httpx_response(status, headers).raise_for_status()
    except httpx.HTTPStatusError as error:
        return error
    raise AssertionError(status)


def requests_response(status, headers):
    response = requests.Response()
    response.status_code = status
    response.headers.update(headers)
    return response


def requests_error(status, headers):
    try:
        requests_response(status, headers).raise_for_status()
    except requests.HTTPError as error:
        return error
    raise AssertionError(status)


def azure_error(status, headers):
    response = SimpleNamespace(status_code=status, reason="because", headers=headers, text=lambda: "")
    return HttpResponseError(response=response)


def botocore_error(status, headers, code="ServiceUnavailable"):
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": {name.lower(): value for name, value in headers.items()}}
    return ClientError({"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": metadata}, "GetItem")


def urllib_error(status, headers):
    message = Message()
    for name, value in headers.items():
        message[name] = value
    return urllib.error.HTTPError("http://example.test", status, "because", message, io.BytesIO())


SHAPES = [httpx_response, httpx_error, requests_response, requests_error, azure_error, botocore_error, urllib_error]


@pytest.fixture(params=SHAPES, ids=lambda build: build.__name__)
def build(request):
    return request.param


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_transient_statuses_are_recognised_in_every_library(build, status):
    subject = build(status, {})
    assert status_of(subject) == status
    assert is_transient(subject)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422, 451])
def test_permanent_statuses_are_recognised_in_every_library(build, status):
    subject = build(status, {})
    assert status_of(subject) == status
    assert not is_transient(subject)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry-After": "120"}, 120.0),
        ({"retry-after": "0"}, 0.0),
        ({"RETRY-AFTER": "1.5"}, 1.5),
        ({"Retry-After": "Sun, 04 Jan 2026 00:01:00 GMT"}, 60.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"x-ms-retry-after-ms": "1500"}, 1.5),
        ({"x-amz-retry-after": "2000"}, 2.0),
        ({"Retry-After": "9", "retry-after-ms": "250"}, 0.25),
        ({"RateLimit-Remaining": "0", "RateLimit-Reset": "30"}, 30.0),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW) + 45)}, 45.0),
        ({"Content-Type": "text/plain"}, None),
        ({}, None),
    ],
    ids=repr,
)
def test_server_delay_is_read_from_every_library(build, headers, expected):
    assert server_delay(build(503, headers), NOW) == expected


def test_successful_response_is_not_transient():
    assert not is_transient(httpx_response(200, {}))
    assert not is_transient(requests_response(204, {}))


@pytest.mark.parametrize(
    "code",
    ["Throttling", "ThrottlingException", "ProvisionedThroughputExceededException", "SlowDown", "RequestLimitExceeded"],
)
def test_aws_throttling_is_transient_although_its_status_is_400(code):
    error = botocore_error(400, {}, code)
    assert status_of(error) == 429
    assert is_transient(error)


def test_aws_error_of_status_400_is_permanent():
    assert not is_transient(botocore_error(400, {}, "ValidationException"))


@pytest.mark.parametrize(
    "response",
    [
        {},
        {"Error": None},
        {"Error": {"Code": []}},
        {"Error": {}, "ResponseMetadata": None},
        {"ResponseMetadata": {"HTTPStatusCode": "503", "HTTPHeaders": 5}},
    ],
    ids=repr,
)
def test_aws_error_without_its_usual_parts_says_nothing(response):
    assert status_of(Failed(response=response)) is None
    assert server_delay(Failed(response=response), NOW) is None


def test_aws_status_429_by_its_code_makes_a_rate_limit_count():
    error = botocore_error(400, {"x-ratelimit-reset": "12"}, "Throttling")
    assert server_delay(error, NOW) == 12.0


@pytest.mark.parametrize("error", [ServiceRequestError("down"), EndpointConnectionError(endpoint_url="http://x")])
def test_errors_without_a_response_have_no_status(error):
    assert status_of(error) is None
    assert server_delay(error, NOW) is None


# --- gRPC -------------------------------------------------------------------------------------------------------------


def packed_status(code, *details):
    return status_pb2.Status(code=code, message="slow down", details=details)


def any_of(message):
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed


def retry_info(seconds, nanos=0):
    return any_of(error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=seconds, nanos=nanos)))


QUOTA = any_of(error_details_pb2.QuotaFailure())


@pytest.fixture(scope="module")
def channel_address():
    """A real server; the method's name says how the call is to fail."""

    def answer(_request, context):
        method = dict(context.invocation_metadata())["case"]
        CASES[method](context)

    handler = grpc.method_handlers_generic_handler("t.T", {"Call": grpc.unary_unary_rpc_method_handler(answer)})
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0).wait()


def aborts(code, *trailers):
    def abort(context):
        context.set_trailing_metadata(trailers)
        context.abort(code, "because")

    return abort


def aborts_with_status(status, *trailers):
    def abort(context):
        context.set_trailing_metadata(trailers)
        context.abort_with_status(rpc_status.to_status(status))

    return abort


CASES = {
    "unavailable": aborts(grpc.StatusCode.UNAVAILABLE),
    "exhausted": aborts(grpc.StatusCode.RESOURCE_EXHAUSTED),
    "deadline": aborts(grpc.StatusCode.DEADLINE_EXCEEDED),
    "invalid": aborts(grpc.StatusCode.INVALID_ARGUMENT),
    "not_found": aborts(grpc.StatusCode.NOT_FOUND),
    "pushback": aborts(grpc.StatusCode.UNAVAILABLE, ("grpc-retry-pushback-ms", "1500")),
    "pushback_never": aborts(grpc.StatusCode.UNAVAILABLE, ("grpc-retry-pushback-ms", "-1")),
    "pushback_garbage": aborts(grpc.StatusCode.UNAVAILABLE, ("grpc-retry-pushback-ms", "soon")),
    "retry_info": aborts_with_status(packed_status(code_pb2.RESOURCE_EXHAUSTED, QUOTA, retry_info(3, 250_000_000))),
    "quota_only": aborts_with_status(packed_status(code_pb2.RESOURCE_EXHAUSTED, QUOTA)),
    "garbage_details": aborts(grpc.StatusCode.UNAVAILABLE, ("grpc-status-details-bin", b"\xff\xff\xff")),
}


def grpc_error(address, case):
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/t.T/Call")(b"", metadata=[("case", case)], timeout=PATIENCE_S)
    return caught.value


async def grpc_aio_error(address, case):
    async with grpc.aio.insecure_channel(address) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            await channel.unary_unary("/t.T/Call")(b"", metadata=[("case", case)], timeout=PATIENCE_S)
    return caught.value


GRPC_EXPECTED = {
    "unavailable": (503, None),
    "exhausted": (429, None),
    "deadline": (504, None),
    "invalid": (400, None),
    "not_found": (400, None),
    "pushback": (503, 1.5),
    "pushback_never": (503, NEVER),
    "pushback_garbage": (503, NEVER),
    "retry_info": (429, 3.25),
    "quota_only": (429, None),
    "garbage_details": (503, None),
}


@pytest.mark.parametrize("case", CASES)
def test_grpc_error_from_a_real_server_is_understood(channel_address, case):
    error = grpc_error(channel_address, case)
    assert (status_of(error), server_delay(error, NOW)) == GRPC_EXPECTED[case]
    assert is_transient(error) == (GRPC_EXPECTED[case][0] != 400)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("case", ["unavailable", "not_found", "pushback", "retry_info"])
def test_grpc_asyncio_error_from_a_real_server_is_understood(channel_address, case):
    error = asyncio.run(grpc_aio_error(channel_address, case))
    assert (status_of(error), server_delay(error, NOW)) == GRPC_EXPECTED[case]


def test_grpc_details_that_the_client_has_unpacked_are_understood():
    """google-api-core's errors carry their details as a list of messages."""
    retry_delay = duration_pb2.Duration(seconds=7, nanos=500_000_000)
    details = [error_details_pb2.QuotaFailure(), error_details_pb2.RetryInfo(retry_delay=retry_delay)]
    assert server_delay(Failed(details=details), NOW) == 7.5


@pytest.mark.parametrize(
    ("seconds", "nanos", "expected"),
    [(0, 0, 0.0), (5, 0, 5.0), (0, 1, 1e-9), (-5, 0, 0.0), (-1, -500_000_000, 0.0), (315_576_000_000, 0, 315_576e6)],
)
def test_grpc_retry_info_is_read_from_its_wire_format(seconds, nanos, expected):
    packed = packed_status(8, QUOTA, retry_info(seconds, nanos)).SerializeToString()
    error = Failed(trailing_metadata=lambda: (("grpc-status-details-bin", packed),))
    assert server_delay(error, NOW) == pytest.approx(expected)


def test_grpc_retry_info_without_a_delay_means_now():
    packed = packed_status(8, any_of(error_details_pb2.RetryInfo())).SerializeToString()
    assert server_delay(Failed(trailing_metadata=lambda: [("grpc-status-details-bin", packed)]), NOW) == 0.0


def test_grpc_details_with_unknown_fields_of_every_wire_type_are_skipped():
    unknown = b"\x21" + b"\x00" * 8 + b"\x2d" + b"\x00" * 4 + b"\x30\x96\x01" + b"\x3a\x03abc"
    packed = unknown + packed_status(8, retry_info(4)).SerializeToString()
    assert server_delay(Failed(trailing_metadata=lambda: [("grpc-status-details-bin", packed)]), NOW) == 4.0


@pytest.mark.parametrize(
    "packed",
    [
        b"\x1b" * 20,  # a group, which is obsolete
        b"\x18\x05",  # field 3 is a number
        b"\x1a\x04\x08\x01\x12\x00",  # its type is a number
        b"\x1a\x7f\x0a",  # cut off
        b"\x1a\x28\x0a\x20type.googleapis.com/google.rpc.RetryInfo",  # shorter than it says
        b"\xff" * 8_192,
        packed_status(8, retry_info(4)).SerializeToString() + b"\x00" * 8_192,  # longer than any real one
    ],
    ids=range(7),
)
def test_grpc_details_that_are_no_message_say_nothing(packed):
    assert server_delay(Failed(trailing_metadata=lambda: [("grpc-status-details-bin", packed)]), NOW) is None


def test_grpc_retry_info_whose_delay_is_of_the_wrong_kind_says_nothing():
    url = b"type.googleapis.com/google.rpc.RetryInfo"
    duration = b"\x0a\x01x"  # seconds as text
    value = b"\x0a" + bytes([len(duration)]) + duration
    detail = b"\x0a" + bytes([len(url)]) + url + b"\x12" + bytes([len(value)]) + value
    packed = b"\x1a" + bytes([len(detail)]) + detail
    assert server_delay(Failed(trailing_metadata=lambda: [("grpc-status-details-bin", packed)]), NOW) is None


@given(st.binary(max_size=300))
def test_random_bytes_as_grpc_details_never_raise(packed):
    found = server_delay(Failed(trailing_metadata=lambda: [("grpc-status-details-bin", packed)]), NOW)
    assert found is None or 0.0 <= found < math.inf


@given(st.binary(min_size=1, max_size=10), st.integers(0, 60))
def test_damaged_grpc_details_never_raise(damage, at):
    packed = packed_status(8, QUOTA, retry_info(3, 250_000_000)).SerializeToString()
    damaged = packed[:at] + damage + packed[at + len(damage) :]
    found = server_delay(Failed(trailing_metadata=lambda: [("grpc-status-details-bin", damaged)]), NOW)
    assert found is None or 0.0 <= found < math.inf


# --- header values ----------------------------------------------------------------------------------------------------

NEW_YORK_SUMMER = timezone(timedelta(hours=-4), "EDT")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("120", 120.0),
        ("  120 ", 120.0),
        ("0", 0.0),
        ("00012", 12.0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("999999999999", 999_999_999_999.0),
        (120, 120.0),
        (1.5, 1.5),
        (b"120", 120.0),
        ("Sun, 04 Jan 2026 00:00:30 GMT", 30.0),
        (b"Sun, 04 Jan 2026 00:00:30 GMT", 30.0),
        ("Sunday, 04-Jan-26 00:00:30 GMT", 30.0),
        ("Sun Jan  4 00:00:30 2026", 30.0),
        ("Sun, 04 Jan 2026 00:00:30 -0000", 30.0),
        ("Sun, 04 Jan 2026 00:00:30", 30.0),
        ("Sun, 04 Jan 2026 02:00:30 +0200", 30.0),
        ("Sat, 03 Jan 2026 20:00:30 EDT", 30.0),
        ("Sat, 03 Jan 2026 19:00:30 EST", 30.0),
        (format_datetime(datetime(2026, 1, 3, 20, 0, 30, tzinfo=NEW_YORK_SUMMER)), 30.0),
        ("Sat, 03 Jan 2026 00:00:00 GMT", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
    ],
    ids=repr,
)
def test_retry_after_is_seconds_or_a_date(value, expected):
    assert delay_of(retry_after=value) == pytest.approx(expected)


GARBAGE = [
    *("", " ", ".", "-", "-1", "-0.5", "+5", "1e9", "1E9", "nan", "NaN", "inf", "-inf", "Infinity", "1_000", "1,000"),
    *("0x10", "²", "٣", "5s", "120, 60", "1.2.3", "soon", "2026-01-04", "2026-01-04T00:00:30Z", "\x00", "5\x00"),
    *("Sun, 99 Jan 2026 00:00:00 GMT", "Sun, 04 Foo 2026 00:00:00 GMT", "Sun, 04 Jan 2026 25:00:00 GMT"),
    *("Sun, 04 Jan 99999 00:00:00 GMT", "Sun, 04 Jan 2026 00:00:00 +9999", "Sun, 04 Jan 2026 00:00:00 +99999999999"),
    *("9" * 65, b"\xff\xfe", None, [], {}, True, False, -1, -1.5, math.nan, object, 1j),
]


@pytest.mark.parametrize("value", GARBAGE, ids=short)
@pytest.mark.parametrize("name", ["retry-after", "retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"])
def test_garbage_in_a_header_says_nothing(name, value):
    assert server_delay(Failed(headers={name: value}), NOW) is None


@pytest.mark.parametrize("value", ["9" * 10_000, "Sun, " * 2_000, b"1" * 10_000], ids=short)
def test_header_of_10_kilobytes_says_nothing(value):
    assert delay_of(retry_after=value) is None


def test_garbage_in_one_header_leaves_the_others_in_force():
    assert delay_of(retry_after_ms="soon", retry_after="5") == 5.0
    assert server_delay(Failed(headers={"Retry-After": "soon"}, retry_after=5), NOW) == 5.0


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "5"},
        {"rEtRy-AfTeR": "5"},
        {b"Retry-After": b"5"},
        [("Retry-After", "5")],
        (("x", "y"), ("retry-after", "5")),
        [[b"retry-after", b"5"]],
        httpx.Headers({"Retry-After": "5"}),
        httpx.Headers({"Retry-After": "5"}).raw,
        requests.structures.CaseInsensitiveDict({"RETRY-AFTER": "5"}),
    ],
    ids=short,
)
def test_headers_may_be_any_mapping_or_list_of_pairs(headers):
    assert server_delay(Failed(headers=headers), NOW) == 5.0
    assert server_delay(Failed(response=SimpleNamespace(headers=headers)), NOW) == 5.0


def test_first_of_two_equal_headers_counts():
    assert server_delay(Failed(headers=[("Retry-After", "5"), ("Retry-After", "9")]), NOW) == 5.0


@pytest.mark.parametrize("headers", [None, 5, "Retry-After: 5", b"x", [1], [()], [("a",)], object(), {5: 6}], ids=short)
def test_headers_that_are_none_say_nothing(headers):
    assert server_delay(Failed(headers=headers), NOW) is None


@pytest.mark.parametrize("value", ["-1", "-0", "", "soon", "1e3", "9" * 65, None, -1], ids=short)
def test_pushback_that_is_no_length_of_time_means_never(value):
    assert delay_of(grpc_retry_pushback_ms=value) == NEVER


def test_pushback_takes_precedence_over_everything_else():
    assert delay_of(grpc_retry_pushback_ms="2000", retry_after="9", retry_after_ms="1") == 2.0


# --- rate limits ------------------------------------------------------------------------------------------------------


def test_rate_limit_that_is_not_spent_says_nothing_about_a_failure():
    assert delay_of(RateLimit_Remaining="5", RateLimit_Reset="30") is None
    assert delay_of(RateLimit_Reset="30") is None
    assert server_delay(httpx_response(503, {"RateLimit-Reset": "30"}), NOW) is None


def test_rate_limit_counts_for_status_429_even_without_what_remains():
    assert server_delay(httpx_response(429, {"RateLimit-Reset": "30"}), NOW) == 30.0


def test_rate_limit_counts_when_it_is_spent_whatever_the_status():
    assert server_delay(httpx_response(403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "30"}), NOW) == 30.0


def test_rate_limit_reset_may_be_seconds_since_1970():
    assert delay_of(X_RateLimit_Remaining="0", X_RateLimit_Reset=str(NOW + 90)) == 90.0
    assert delay_of(X_RateLimit_Remaining="0", X_RateLimit_Reset=str(NOW - 90)) == 0.0


def test_rate_limit_without_a_usable_reset_says_nothing():
    assert delay_of(RateLimit_Remaining="0", RateLimit_Reset="soon") is None
    assert delay_of(RateLimit_Remaining="0") is None


def test_retry_after_takes_precedence_over_a_rate_limit():
    assert delay_of(Retry_After="5", RateLimit_Remaining="0", RateLimit_Reset="30") == 5.0


# --- exceptions with retry_after --------------------------------------------------------------------------------------


class Nowhere(tzinfo):
    """A zone that does not know its offset: as good as none."""

    def utcoffset(self, _instant):
        return None


class Broken(tzinfo):
    def utcoffset(self, _instant):
        raise RuntimeError("no such zone")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5.0),
        (0, 0.0),
        (2.5, 2.5),
        ("5", 5.0),
        (b"5", 5.0),
        ("Sun, 04 Jan 2026 00:00:30 GMT", 30.0),
        (timedelta(seconds=90), 90.0),
        (timedelta(seconds=-90), 0.0),
        (datetime(2026, 1, 4, 0, 1, tzinfo=UTC), 60.0),
        (datetime(2026, 1, 3, 20, 1, tzinfo=NEW_YORK_SUMMER), 60.0),
        (datetime(2026, 1, 4, 0, 1), 60.0),  # noqa: DTZ001 - without a zone it is read as UTC
        (datetime(2026, 1, 4, 0, 1, tzinfo=Nowhere()), 60.0),
        (datetime(2025, 1, 4, tzinfo=UTC), 0.0),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), 0.0),
        (math.inf, float(1 << 62)),
        (10**400, float(1 << 62)),
        (timedelta.max, timedelta.max.total_seconds()),
    ],
    ids=short,
)
def test_retry_after_of_an_exception_is_any_length_of_time_or_instant(value, expected):
    assert server_delay(Failed(retry_after=value), NOW) == expected


@pytest.mark.parametrize(
    "value",
    [
        *(None, math.nan, -1, -math.inf, True, "nan", "-1", "soon", [], object, (lambda: 5)),
        datetime(2026, 1, 4, tzinfo=Broken()),
    ],
    ids=short,
)
def test_retry_after_of_an_exception_that_is_none_says_nothing(value):
    assert server_delay(Failed(retry_after=value), NOW) is None


def test_naive_datetime_is_utc_whatever_the_machines_zone(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert server_delay(Failed(retry_after=datetime(2026, 1, 4, 0, 1)), NOW) == 60.0  # noqa: DTZ001 - as above
        assert server_delay(Failed(retry_after=datetime(2026, 1, 4, 0, 1, tzinfo=Nowhere())), NOW) == 60.0
        assert delay_of(retry_after="Sun, 04 Jan 2026 00:01:00 -0000") == 60.0
    finally:
        monkeypatch.undo()
        time.tzset()


def test_open_breaker_says_when_to_come_back():
    assert server_delay(CircuitOpen("db", 12.5), NOW) == 12.5


# --- status_of and is_transient ---------------------------------------------------------------------------------------


class Code(enum.Enum):
    UNAVAILABLE = 14
    ABORTED = 10
    OK = 0


@dataclass
class Answer:
    """A method that returns a given value."""

    value: object

    def __call__(self):
        return self.value


class JobState(enum.Enum):
    FAILED = "failed"
    Running = "running"


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"status_code": 503}, 503),
        ({"status": 503}, 503),
        ({"code": 503}, 503),
        ({"code": HTTPStatus.BAD_GATEWAY}, 502),
        ({"status_code": None, "status": 429}, 429),
        ({"status_code": 99}, None),
        ({"status_code": 600}, None),
        ({"code": 1006}, None),
        ({"code": -1}, None),
        ({"code": True}, None),
        ({"code": "503"}, None),
        ({"code": "E_FAIL"}, None),
        ({"code": 503.0}, None),
        ({"response": SimpleNamespace(status=503)}, 503),
        ({"response": SimpleNamespace(status_code=404, status=503)}, 404),
        ({"response": SimpleNamespace()}, None),
        ({"response": None}, None),
        ({"code": Answer(Code.UNAVAILABLE)}, 503),
        ({"code": Answer(Code.ABORTED)}, 400),
        ({"code": Answer(Code.OK)}, None),
        ({"code": Code.UNAVAILABLE}, 503),
        ({"code": Answer(None)}, None),
        ({"code": str.strip}, None),
        ({"status": JobState.FAILED}, None),
        ({"status": JobState.Running}, None),
        ({}, None),
    ],
    ids=short,
)
def test_status_is_found_by_the_shape_of_the_error(attributes, expected):
    assert status_of(Failed(**attributes)) == expected


@pytest.mark.parametrize(
    "error",
    [
        *(ConnectionError(), ConnectionResetError(), BrokenPipeError(), TimeoutError()),
        *(CircuitOpen("x", 1.0), AttemptTimeout("x", 1.0)),
        ExceptionGroup("all", [ConnectionError(), TimeoutError()]),
        ExceptionGroup("nested", [ExceptionGroup("inner", [Failed(status_code=503)])]),
    ],
    ids=repr,
)
def test_errors_that_may_pass_are_transient(error):
    assert is_transient(error)


@pytest.mark.parametrize(
    "subject",
    [
        *(ValueError(), OSError(), InvalidSetting("x", 1, "y"), Failed(), None, "503", 503, b"", {}, []),
        ExceptionGroup("some", [ConnectionError(), ValueError()]),
        ExceptionGroup("some", [Failed(status_code=503), Failed(status_code=404)]),
        BaseExceptionGroup("exit", [ConnectionError(), KeyboardInterrupt()]),
    ],
    ids=repr,
)
def test_everything_else_is_not_transient(subject):
    assert not is_transient(subject)


def test_status_decides_before_the_type_does():
    class Gone(ConnectionError):
        status_code = 410

    assert not is_transient(Gone())


def test_transient_statuses_are_the_documented_ones():
    assert {408, 425, 429, *range(500, 600)} == TRANSIENT_STATUSES


# --- hostile objects --------------------------------------------------------------------------------------------------


class Hostile:
    """Every property raises."""

    def __getattr__(self, name):
        raise RuntimeError(name)


class HostileMethods:
    def __init__(self, error):
        self.error = error

    def _raise(self):
        raise self.error

    code = trailing_metadata = initial_metadata = _raise

    def __iter__(self):
        raise self.error

    @property
    def headers(self):
        return self

    @property
    def response(self):
        return self

    @property
    def details(self):
        return [self, Hostile(), None]

    @property
    def retry_delay(self):
        raise self.error


class HugeDuration:
    seconds = 10**400
    nanos = 0

    @property
    def retry_delay(self):
        return self


HOSTILE = [
    Hostile(),
    *(HostileMethods(error()) for error in (RuntimeError, ValueError, OSError, LookupError, TypeError)),
]


@pytest.mark.parametrize("subject", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_objects_say_nothing_and_break_nothing(subject):
    assert status_of(subject) is None
    assert server_delay(subject, NOW) is None
    assert not is_transient(subject)


def test_unpacked_delay_beyond_any_number_is_bounded():
    assert 1e9 < server_delay(Failed(details=[HugeDuration()]), NOW) < math.inf


def test_async_methods_are_left_alone():
    class Call:
        async def code(self):
            raise AssertionError

        async def trailing_metadata(self):
            raise AssertionError

    assert status_of(Call()) is None
    assert server_delay(Call(), NOW) is None


def test_headers_without_an_end_do_not_hang():
    def endless():
        while True:
            yield ("x", "y")

    assert server_delay(Failed(headers=endless()), NOW) is None


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=80)
    | st.binary(max_size=80)
    | st.datetimes()
    | st.datetimes(timezones=st.timezones())
    | st.timedeltas()
    | st.from_regex(r"\A[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{1,5} \d\d:\d\d:\d\d [-+A-Z\d]{0,6}\Z")
    | st.from_regex(r"\A[-+.,:\d eE/_a-z]{0,70}\Z"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
names = st.sampled_from([
    *("retry-after", "Retry-After-Ms", "x-ms-retry-after-ms", "x-amz-retry-after", b"retry-after", "RateLimit-Reset"),
    *("RateLimit-Remaining", "x-ratelimit-reset", "x-ratelimit-remaining"),
    *("grpc-retry-pushback-ms", "grpc-status-details-bin"),
])  # fmt: skip
headers = st.dictionaries(names, anything, max_size=4) | st.lists(st.tuples(names, anything), max_size=4) | anything
attributes = st.sampled_from(
    ["status_code", "status", "code", "retry_after", "details", "retry_delay", "seconds", "nanos"]
)


@given(headers, st.dictionaries(attributes, anything), anything, st.floats(0, 1e11))
@example({"grpc-retry-pushback-ms": 10**400, "retry-after-ms": [10**400]}, {}, None, 0.0)
@example({"retry-after": 10**400}, {"retry_after": 10**400}, None, 0.0)
@example({"retry-after": "0 0 0 0 0"}, {}, {"Error": {"Code": {}}}, 0.0)
def test_server_delay_is_a_sound_number_or_nothing_for_anything(headers, attributes, response, now):
    for subject in (
        Failed(headers=headers, **attributes),
        Failed(response=SimpleNamespace(headers=headers, **attributes)),
        Failed(response=response, trailing_metadata=lambda: headers, **attributes),
        Failed(
            response={"Error": attributes, "ResponseMetadata": {"HTTPHeaders": headers, "HTTPStatusCode": response}}
        ),
    ):
        found = server_delay(subject, now)
        assert found is None or found == NEVER or found >= 0.0  # which also excludes NaN
        assert status_of(subject) is None or 100 <= status_of(subject) <= 599
        assert is_transient(subject) in {True, False}


@given(st.text(max_size=64) | st.from_regex(r"\A[\w ,:+-]{0,64}\Z"))
def test_any_text_as_retry_after_is_a_sound_number_or_nothing(text):
    found = delay_of(retry_after=text)
    assert found is None or 0.0 <= found < math.inf


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("closed"),
        requests.ConnectionError("refused"),
        requests.ReadTimeout("slow"),
        requests.exceptions.ChunkedEncodingError("closed"),
        EndpointConnectionError(endpoint_url="http://localhost"),
        ServiceRequestError("refused"),
    ],
    ids=lambda error: f"{type(error).__module__}.{type(error).__name__}",
)
def test_a_transport_error_of_an_http_client_is_transient(error):
    assert is_transient(error)


def test_a_client_error_that_will_not_pass_is_not_transient():
    assert not is_transient(httpx.UnsupportedProtocol("ftp"))
    assert not is_transient(requests.exceptions.InvalidURL("no"))
