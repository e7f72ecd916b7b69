# SPDX-License-Identifier: MIT
"""A real HTTP server that is busy twice, and a client that waits as long as the server asks."""

import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from redrive.retry import Adaptive, AttemptFailed, is_transient, retry
from redrive.telemetry import Event


class BusyTwice(BaseHTTPRequestHandler):
    """Answers 503 with a Retry-After, twice, then 200."""

    served = 0

    def do_GET(self) -> None:
        """Answer a request."""
        BusyTwice.served += 1
        self.send_response(503 if BusyTwice.served < 3 else 200)
        self.send_header("Retry-After-Ms", "50")
        self.end_headers()
        self.wfile.write(b"12 in stock")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


def tell(event: Event) -> None:
    """Show each failed attempt."""
    if isinstance(event, AttemptFailed):
        print(f"attempt {event.iteration}: {event.exception_message}")


@retry(on=is_transient, policy=Adaptive(max_attempts=4), on_event=tell)
def stock(url: str) -> bytes:
    """Read the stock."""
    with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - our own server, below
        body: bytes = response.read()
        return body


with HTTPServer(("127.0.0.1", 0), BusyTwice) as server:
    Thread(target=server.serve_forever, daemon=True).start()
    answer = stock(f"http://127.0.0.1:{server.server_port}/stock")
    server.shutdown()

print(answer.decode())
assert BusyTwice.served == 3
