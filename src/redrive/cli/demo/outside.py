# SPDX-License-Identifier: MIT
"""What the shop depends on, and what goes wrong there: a payment provider, a card network, a partner's webhook.

What fails, and when, is a pure function of the seconds since the shop opened, so that every demo is the same.
"""

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

from redrive.clock import Clock

_SHOP: Final = "shop"
"""The module of the errors, as a person sees it: the shop stands for a program of their own."""

_WAVE_S: Final = 60.0
_WAVE_LASTS_S: Final = 20.0
_PARTNER_FLAKY_S: Final = 45.0
_PARTNER_DOWN_S: Final = 150.0


class ProviderTimeout(Exception):
    """The payment provider has not answered in time."""

    __module__ = _SHOP


class WarehouseDown(ConnectionError):
    """The warehouse does not reserve anything."""

    __module__ = _SHOP


class CardNetworkDown(ConnectionError):
    """The network of a brand of cards cannot be reached."""

    __module__ = _SHOP


class NoAddress(ValueError):
    """An order says nothing about where it goes."""

    __module__ = _SHOP


def is_network_down(seconds: float) -> bool:
    """Say whether the card network is down: in waves, the first of which begins after 10 seconds."""
    return 10.0 <= seconds % _WAVE_S < 10.0 + _WAVE_LASTS_S


def partner_status(seconds: float, call: int) -> int:
    """Return how the partner answers a call: at first one in four is refused, then all are, then none is."""
    if seconds < _PARTNER_FLAKY_S:
        return 503 if call % 4 == 0 else 200
    return 503 if seconds < _PARTNER_DOWN_S else 200


@dataclass
class Outside:
    """The world outside the shop.

    Attributes:
        clock: what time it is.
        is_provider_up: whether the payment provider answers. It did not this morning.
        is_warehouse_up: whether the warehouse does.
        is_steady: whether nothing fails from now on, so that a story can end.
    """

    clock: Clock
    is_provider_up: bool = True
    is_warehouse_up: bool = True
    is_steady: bool = False
    _opened_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._opened_at = self.clock.monotonic()

    @property
    def seconds(self) -> float:
        """How long the shop has been open."""
        return self.clock.monotonic() - self._opened_at

    def reserve(self) -> None:
        """Reserve what was ordered."""
        if not self.is_warehouse_up:
            raise WarehouseDown("the warehouse does not answer")

    def charge(self, order: dict[str, Any]) -> None:
        """Charge the card of an order."""
        if not self.is_provider_up:
            raise ProviderTimeout("the payment provider did not answer within 5 s")
        if order["card"] == "Maestro" and not self.is_steady and is_network_down(self.seconds):
            raise CardNetworkDown("the card network Maestro does not answer")

    def status(self, call: int) -> int:
        """Return how the partner answers a call."""
        return 200 if self.is_steady else partner_status(self.seconds, call)


class Partner:
    """The partner's web server, which packs what the shop sells. Use it as ``with Partner(outside) as partner``.

    Args:
        outside: says how it answers.

    Attributes:
        url: where it takes orders.
    """

    def __init__(self, outside: Outside) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(outside))
        self.url = f"http://127.0.0.1:{self._server.server_port}/pack"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(outside: Outside) -> type[BaseHTTPRequestHandler]:
    calls = 0

    class PackHandler(BaseHTTPRequestHandler):
        """Packs an order, or answers 503."""

        def do_POST(self) -> None:
            nonlocal calls
            calls += 1
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(outside.status(calls))
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base has it
            """Print nothing: the demo has its own words."""

    return PackHandler
