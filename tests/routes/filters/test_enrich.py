# SPDX-License-Identifier: MIT
"""The filter that asks a web service about each event, with a real server."""

import asyncio
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest

from redrive.errors import InvalidExpression, InvalidSetting, MissingExtra
from redrive.routes.filters.enrich import EnrichFilter
from redrive.routes.outcomes import DestinationDown, Rejected, Throttled, TryLater
from redrive.testing import ManualClock
from tests.patience import PATIENCE_S
from tests.routes.filters.events import bodies, environment, event, leg


class Service:
    """A web service that notes its requests and answers as a test says."""

    def __init__(self):
        self.requests = []
        self.answer = (200, {}, b'{"name": "Ann"}')
        self.is_asked, self.may_answer = Event(), Event()
        self.may_answer.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _handler(self):
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def respond(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                service.requests.append((self.command, self.path, dict(self.headers), body))
                service.is_asked.set()
                service.may_answer.wait(PATIENCE_S)
                status, headers, content = service.answer
                if status is None:  # hang up
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in ({"content-length": str(len(content))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = respond  # noqa: N815 - as the library calls them

            def log_message(self, *_):
                return

        return Handler

    def close(self):
        self.may_answer.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def service():
    made = Service()
    yield made
    made.close()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
async def enrich(service, clock):
    """Return a function that lets a filter ask the service."""
    opened = []

    async def ask(message, path="/customers", **settings):
        made = EnrichFilter(service.url + path, **{"into": "customer", **settings}).open(environment(clock=clock))
        opened.append(made)
        return await made.apply(message, leg())

    yield ask
    for each in opened:
        await each.ended(event(), leg(), is_delivered=True)
        await each.close()
        await each.close()


ORDER = event({"order": 1, "who": "a/b ?ü", "n": 2, "is_big": True}, content_type="application/json")


# --- requests


async def test_the_answer_is_put_into_the_body(enrich, service):
    made = await enrich(ORDER)
    assert bodies(made) == [{**json.loads(ORDER.body), "customer": {"name": "Ann"}}]
    assert (made[0].id, made[0].content_type) == ("o-1", "application/json")
    ((method, path, headers, body),) = service.requests
    assert (method, path, body) == ("GET", "/customers", b"")
    assert headers["accept"] == "application/json"
    assert "Cookie" not in headers


async def test_an_earlier_value_is_replaced(enrich):
    assert bodies(await enrich(event({"customer": 1}))) == [{"customer": {"name": "Ann"}}]


async def test_values_of_the_event_are_put_into_the_url_and_its_query(enrich, service):
    params = {"who": "body.who", "number": "body.n", "big": "body.is_big"}
    await enrich(ORDER, "/customers/{who}/orders?fixed=1", params=params)
    assert service.requests[0][1] == "/customers/a%2Fb%20%3F%C3%BC/orders?fixed=1&big=true&number=2"


async def test_a_value_that_leads_to_another_place_is_rejected(enrich, service):
    for value in (".", ".."):
        answer = await enrich(event({"who": value}), "/customers/{who}", params={"who": "body.who"})
        assert answer == Rejected(f"{value!r} cannot stand in a URL: it would lead to another place")
    assert service.requests == []
    await enrich(event({"who": ".."}), params={"who": "body.who"})
    assert service.requests[0][1] == "/customers?who=.."


@pytest.mark.parametrize("value", [None, "", {}, {"a": 1}, [1], "a\r\nb", "a\0"])
async def test_a_value_that_no_url_can_have_is_rejected(enrich, service, value):
    answer = await enrich(event({"who": value}), "/customers/{who}", params={"who": "body.who"})
    assert isinstance(answer, Rejected)
    assert service.requests == []


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_a_request_that_has_a_body_has_that_of_the_event(enrich, service, method):
    await enrich(ORDER, method=method)
    asked, _, headers, body = service.requests[0]
    assert (asked, body, headers["content-type"]) == (method, ORDER.body, "application/json")


async def test_headers_may_come_from_the_environment(enrich, service, monkeypatch):
    monkeypatch.setenv("CUSTOMERS_TOKEN", "Bearer abc")
    await enrich(ORDER, headers={"Authorization": "env:CUSTOMERS_TOKEN", "X-Plain": "1", "Accept": "text/json"})
    headers = {name.lower(): value for name, value in service.requests[0][2].items()}
    assert (headers["authorization"], headers["x-plain"], headers["accept"]) == ("Bearer abc", "1", "text/json")


def test_a_variable_that_is_missing_is_refused_when_the_filter_is_opened():
    made = EnrichFilter("http://a", into="b", headers={"Authorization": "env:NOT_THERE_AT_ALL"})
    with pytest.raises(InvalidSetting, match="needs the environment variable 'NOT_THERE_AT_ALL'"):
        made.open(environment())


async def test_cookies_of_one_answer_are_not_sent_with_the_next_request(service, clock):
    service.answer = (200, {"set-cookie": "a=1"}, b"{}")
    opened = EnrichFilter(service.url, into="x").open(environment(clock=clock))
    await opened.apply(ORDER, leg())
    await opened.apply(ORDER, leg())
    await opened.close()
    assert "cookie" not in {name.lower() for name in service.requests[1][2]}


# --- answers


@pytest.mark.parametrize("content", [b"", b"  \n", b"null"])
async def test_an_answer_without_content_is_null(enrich, service, content):
    service.answer = (200, {}, content)
    assert bodies(await enrich(event({"a": 1}))) == [{"a": 1, "customer": None}]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, Rejected),
        (400, Rejected),
        (404, Rejected),
        (408, TryLater),
        (425, TryLater),
        (429, Throttled),
        (500, TryLater),
        (502, DestinationDown),
        (503, DestinationDown),
        (504, DestinationDown),
    ],
)
async def test_a_status_says_what_becomes_of_the_leg(enrich, service, status, kind):
    service.answer = (status, {"location": "http://example.invalid/"}, b"so\nit is")
    assert await enrich(ORDER) == kind(f"the destination answered {status}: so it is")


async def test_the_pause_that_the_service_asks_for_is_kept_to(enrich, service):
    service.answer = (429, {"retry-after": "7"}, b"")
    assert await enrich(ORDER) == Throttled("the destination answered 429", 7.0)


@pytest.mark.parametrize("content", [b"<html>", b"{", b"\xff", b"NaN"])
async def test_an_answer_that_is_no_json_is_tried_again_later(enrich, service, content):
    service.answer = (200, {}, content)
    answer = await enrich(ORDER)
    assert isinstance(answer, TryLater)
    assert answer.reason.startswith("the answer is no JSON: ")


async def test_an_answer_that_is_too_large_is_not_read_to_its_end(enrich, service):
    service.answer = (200, {}, b'"' + b"a" * 3_000_000 + b'"')
    assert await enrich(ORDER) == Rejected("the answer has more than 1,048,576 bytes")


async def test_a_service_that_takes_too_long_is_tried_again_later(enrich, service, clock):
    service.may_answer.clear()
    asking = asyncio.create_task(enrich(ORDER, timeout=5))
    assert await asyncio.to_thread(service.is_asked.wait, PATIENCE_S)
    clock.advance(5)
    assert await asking == TryLater("no answer within 5 s")


async def test_a_service_that_hangs_up_or_does_not_listen_is_down(enrich, service):
    service.answer = (None, {}, b"")
    assert isinstance(await enrich(ORDER), DestinationDown)
    service.close()
    assert isinstance(await enrich(ORDER), DestinationDown)


# --- events


@pytest.mark.parametrize(("body", "problem"), [([1], "the body is a list"), (b"no json", "the body is no JSON")])
async def test_an_event_that_nothing_can_be_added_to_is_rejected_without_asking(enrich, service, body, problem):
    answer = await enrich(event(body))
    assert isinstance(answer, Rejected)
    assert problem in answer.reason
    assert service.requests == []


async def test_an_event_whose_content_type_cannot_be_sent_is_rejected(enrich, service):
    answer = await enrich(event({}, content_type="a\r\nb: c"), method="POST")
    assert isinstance(answer, Rejected)
    assert answer.reason.startswith("the request cannot be written as HTTP: ")
    assert service.requests == []


# --- settings


@pytest.mark.parametrize(
    "url",
    ["", "example.org", "ftp://example.org", "http://", "http://{host}/", "http://a:0/", "http://a:b/", "http://a/#b"],
)
def test_a_url_that_cannot_be_called_is_refused(url):
    with pytest.raises(InvalidSetting, match="url"):
        EnrichFilter(url, into="x", params={"host": "body.host"})


def test_a_password_in_a_url_is_refused_and_not_shown():
    with pytest.raises(InvalidSetting, match="must have no password") as refused:
        EnrichFilter("https://user:geheim@example.org/", into="x")
    assert "geheim" not in str(refused.value)


def test_a_place_in_the_url_needs_a_value():
    with pytest.raises(InvalidSetting, match=r"has \{id\}; write params = \{id = 'body.id'\} too"):
        EnrichFilter("http://a/{id}", into="x")
    with pytest.raises(InvalidExpression):
        EnrichFilter("http://a/{id}", into="x", params={"id": "total"})


@pytest.mark.parametrize("name", ["", "a b", "a:", "é", "Content-Length", "transfer-encoding"])
def test_the_name_of_a_header_is_one_that_can_be_sent(name):
    with pytest.raises(InvalidSetting, match="headers"):
        EnrichFilter("http://a/", into="x", headers={name: "1"})


def test_the_value_of_a_header_can_be_sent_and_is_not_shown(monkeypatch):
    with pytest.raises(InvalidSetting, match="must be printable ASCII") as refused:
        EnrichFilter("http://a/", into="x", headers={"X": "geheim\n"})
    assert "geheim" not in str(refused.value)
    monkeypatch.setenv("BROKEN_TOKEN", "geheim\x07!")
    with pytest.raises(InvalidSetting, match="printable ASCII") as refused:
        EnrichFilter("http://a/", into="x", headers={"X": "env:BROKEN_TOKEN"}).open(environment())
    assert "geheim" not in str(refused.value)


def test_headers_are_not_shown():
    made = EnrichFilter("http://a/", into="x", headers={"Authorization": "geheim", "X": "env:TOKEN"})
    for shown in (str(made), repr(made)):
        assert shown == "enrich(url='http://a/', into='x', headers={'Authorization': '***', 'X': 'env:TOKEN'})"
    assert EnrichFilter.from_table(made.to_table()) == made


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtra, match="the enrich filter needs the extra 'routes'"):
        EnrichFilter("http://a/", into="x").open(environment())
