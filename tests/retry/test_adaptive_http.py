# SPDX-License-Identifier: MIT
"""Adaptive against the real httpx and requests, and a real HTTP server that answers badly."""

from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest
import requests

from redrive.retry import Adaptive, Fixed, RetryBudget, is_transient, retry
from redrive.testing import ManualClock


class Answers(BaseHTTPRequestHandler):
    """Gives the listed answers, one for each request; the last one repeats."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self):
        script, seen = self.server.script, self.server.seen
        status, headers, body = script[min(len(seen), len(script) - 1)]
        seen.append(self.path)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if body is None:  # promise a body, send half of it, hang up
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"half of ")
            self.close_connection = True
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def server():
    """A server on a port of its own. Set its ``script``; it notes the requests it has ``seen``."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.daemon_threads = True
        server.script, server.seen = [], []
        server.url = f"http://127.0.0.1:{server.server_address[1]}/"
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def clock():
    return ManualClock(auto_advance=True)


@pytest.fixture(params=["httpx", "httpx-async", "requests"])
async def get(request, server):
    """What gets the server's page with one of the clients, under a given retry."""
    if request.param == "httpx-async":
        async with httpx.AsyncClient(trust_env=False) as client:
            yield lambda attempts: attempts.call_async(client.get, server.url)
        return
    if request.param == "httpx":
        session = httpx.Client(trust_env=False)
    else:
        session = requests.Session()
        session.trust_env = False
    with session as client:

        async def get(attempts):
            return attempts.call(client.get, server.url)

        yield get


def attempts_with(clock, policy=None, **settings):
    """The retry that the documentation recommends for HTTP clients."""
    return retry(
        on=(httpx.TransportError, requests.RequestException, is_transient),
        on_result=is_transient,
        policy=policy or Adaptive(Fixed(1, jitter="none", max_attempts=4), jitter=0),
        clock=clock,
        **settings,
    )


OK = (200, {}, b"at last")
BUSY = (503, {"Retry-After": "7"}, b"busy")
LIMITED = (429, {"Retry-After": "3"}, b"too many")
DOWN = (502, {}, b"bad gateway")
CUT_OFF = (200, {}, None)
MISSING = (404, {"Retry-After": "7"}, b"missing")


@pytest.mark.parametrize(
    ("script", "slept"),
    [
        ([OK], []),
        ([BUSY, OK], [7.0]),
        ([LIMITED, OK], [3.0]),
        ([BUSY, LIMITED, DOWN, OK], [7.0, 3.0, 1.0]),
        ([DOWN, DOWN, OK], [1.0, 1.0]),
        ([CUT_OFF, OK], [1.0]),
        ([CUT_OFF, BUSY, OK], [1.0, 7.0]),
        ([(503, {"retry-after-ms": "250"}, b""), OK], [0.25]),
        ([(503, {"x-ms-retry-after-ms": "1500"}, b""), OK], [1.5]),
        ([(429, {"RateLimit-Reset": "9"}, b""), OK], [9.0]),
        ([(503, {"Retry-After": "soon"}, b""), OK], [1.0]),
        ([(503, {"Retry-After": "9" * 10_000}, b""), OK], [1.0]),
        ([(503, {"Retry-After": "86400"}, b""), OK], [120.0]),
        ([(503, {"Retry-After": "0"}, b""), OK], []),
    ],
)
async def test_client_waits_as_the_server_asks(server, clock, get, script, slept):
    server.script = script
    response = await get(attempts_with(clock, deadline=None))
    assert response.status_code == 200
    assert response.text == "at last"
    assert clock.slept == slept
    assert len(server.seen) == len(script)


@pytest.mark.parametrize(("offset", "slept"), [(30, [30.0]), (-30, [])])
async def test_client_waits_until_the_date_the_server_names(server, clock, get, offset, slept):
    server.script = [(503, {"Retry-After": formatdate(clock.time() + offset, usegmt=True)}, b""), OK]
    assert (await get(attempts_with(clock))).status_code == 200
    assert clock.slept == slept


async def test_permanent_status_is_not_retried(server, clock, get):
    server.script = [MISSING]
    response = await get(attempts_with(clock))
    assert response.status_code == 404
    assert (len(server.seen), clock.slept) == (1, [])


async def test_status_becomes_permanent_after_a_retry(server, clock, get):
    server.script = [BUSY, MISSING]
    assert (await get(attempts_with(clock))).status_code == 404
    assert (len(server.seen), clock.slept) == (2, [7.0])


async def test_last_response_is_returned_when_attempts_run_out(server, clock, get):
    server.script = [BUSY, DOWN, LIMITED, (503, {}, b"the last one")]
    response = await get(attempts_with(clock))
    assert response.status_code == 503
    assert response.text == "the last one"
    assert (len(server.seen), clock.slept) == (4, [7.0, 1.0, 3.0])


async def test_last_error_is_raised_when_attempts_run_out(server, clock, get):
    server.script = [CUT_OFF]
    with pytest.raises(
        (httpx.RemoteProtocolError, requests.ConnectionError, requests.exceptions.ChunkedEncodingError)
    ) as caught:
        await get(attempts_with(clock))
    assert (len(server.seen), clock.slept) == (4, [1.0, 1.0, 1.0])
    assert "all 4 attempts failed" in caught.value.__notes__[0]


async def test_last_response_is_returned_at_once_when_the_wait_would_pass_the_deadline(server, clock, get):
    server.script = [BUSY]
    response = await get(attempts_with(clock, deadline=5))
    assert response.status_code == 503
    assert (len(server.seen), clock.slept) == (1, [])


async def test_last_response_is_returned_when_the_budget_is_spent(server, clock, get):
    server.script = [BUSY]
    budget = RetryBudget(ratio=0, per_second=0, burst=1)
    assert (await get(attempts_with(clock, budget=budget))).status_code == 503
    assert len(server.seen) == 2


async def test_jitter_never_brings_the_client_back_early(server, get):
    server.script = [BUSY]
    clock = ManualClock(auto_advance=True)
    await get(attempts_with(clock, Adaptive(jitter=0.2, max_attempts=8), deadline=None))
    assert len(clock.slept) == 7
    assert all(7.0 <= slept <= 8.4 for slept in clock.slept)
    assert len(set(clock.slept)) == 7


def test_httpx_raise_for_status_is_retried_in_a_decorated_function(server, clock):
    server.script = [BUSY, LIMITED, OK]
    with httpx.Client(trust_env=False) as client:

        @retry(on=(httpx.TransportError, is_transient), policy=Adaptive(jitter=0), clock=clock)
        def page():
            return client.get(server.url).raise_for_status().text

        assert page() == "at last"
    assert (len(server.seen), clock.slept) == (3, [7.0, 3.0])


async def test_httpx_raise_for_status_is_retried_in_a_decorated_async_function(server, clock):
    server.script = [BUSY, LIMITED, OK]
    async with httpx.AsyncClient(trust_env=False) as client:

        @retry(on=(httpx.TransportError, is_transient), policy=Adaptive(jitter=0), clock=clock)
        async def page():
            return (await client.get(server.url)).raise_for_status().text

        assert await page() == "at last"
    assert (len(server.seen), clock.slept) == (3, [7.0, 3.0])


def test_requests_raise_for_status_is_retried_in_a_block(server, clock):
    server.script = [BUSY, LIMITED, OK]
    with requests.Session() as session:
        session.trust_env = False
        for attempt in retry(on=is_transient, policy=Adaptive(jitter=0), clock=clock):
            with attempt:
                response = session.get(server.url)
                response.raise_for_status()
    assert response.text == "at last"
    assert (len(server.seen), clock.slept) == (3, [7.0, 3.0])


def test_raise_for_status_of_a_permanent_status_is_the_callers_own_error(server, clock):
    server.script = [MISSING]

    @retry(on=(httpx.HTTPStatusError, httpx.TransportError), policy=Adaptive(), clock=clock)
    def page():
        return httpx.get(server.url, trust_env=False).raise_for_status()

    with pytest.raises(httpx.HTTPStatusError, match="404") as caught:
        page()
    assert (len(server.seen), clock.slept) == (1, [])
    assert "status 404 is not transient" in caught.value.__notes__[0]


def test_stream_that_ends_in_the_middle_is_read_again_from_the_start(server, clock):
    server.script = [CUT_OFF, BUSY, OK]
    with httpx.Client(trust_env=False) as client:

        @retry(on=(httpx.TransportError, is_transient), policy=Adaptive(Fixed(1, jitter="none"), jitter=0), clock=clock)
        def download():
            with client.stream("GET", server.url) as response:
                response.raise_for_status()
                return b"".join(response.iter_bytes())

        assert download() == b"at last"
    assert (len(server.seen), clock.slept) == (3, [1.0, 7.0])


def test_refused_connection_is_retried(server, clock):
    server.shutdown()
    server.server_close()
    with pytest.raises(httpx.ConnectError):
        attempts_with(clock).call(httpx.get, server.url, trust_env=False)
    assert clock.slept == [1.0, 1.0, 1.0]
