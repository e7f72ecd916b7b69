# SPDX-License-Identifier: MIT
"""``redrive demo`` opens a shop that fails as it says, tells its story, and closes without a trace."""

import signal

import httpx
import pytest

from redrive.cli.demo.orders import order
from redrive.cli.demo.outside import is_network_down, partner_status
from tests.serving import ended, ready, started


def test_the_story_ends_with_every_order_of_the_outage_recovered(ok):
    story = ok("demo", "--once", "--orders", "90", "--listen", "127.0.0.1:0")
    for line in (
        "What failed, by cause",
        "x shop.ProviderTimeout",
        "x shop.NoAddress",
        "x redrive.errors.InvalidPayload",
        "confirmed by the worker",
        "0 unresolved",
        "The way of one order",
        "payments",
    ):
        assert line in story
    assert [line for line in story.splitlines() if len(line) > 80] == []


def test_it_serves_until_a_signal_and_ends_cleanly(tmp_path):
    with started("demo", "--orders", "9", "--listen", "127.0.0.1:0", "--keep", str(tmp_path), cwd=tmp_path) as process:
        base = _address(process)
        ready(base)
        routes = httpx.get(f"{base}/api/v1/routes").json()
        assert {each["name"] for each in routes} == {"charge", "check-large", "pack"}
        process.send_signal(signal.SIGINT)
        status, out, err = ended(process)
    assert (status, err) == (0, "")
    assert out.endswith("closing the shop …\n")
    assert (tmp_path / "shop.db").exists()


def _address(process):
    for line in process.stdout:
        if "Open http://" in line:
            return line.split()[1]
    raise AssertionError("it has ended")


def test_the_card_network_fails_in_waves():
    assert [is_network_down(seconds) for seconds in (0, 9.9, 10, 29.9, 30, 69, 70, 90)] == [
        *[False, False, True, True, False, False, True, False],
    ]


@pytest.mark.parametrize(("seconds", "refused"), [(0, 1), (44, 1), (45, 4), (149, 4), (150, 0)])
def test_the_partner_is_flaky_then_down_then_back(seconds, refused):
    assert [partner_status(seconds, call) for call in range(1, 5)].count(503) == refused


def test_an_order_is_always_the_same():
    assert order(7) == order(7) != order(8)
    assert [number for number in range(1, 100) if order(number)["address"] is None] == [40, 80]
