# SPDX-License-Identifier: MIT
"""The pytest plugin: fixtures for a broker, a clock and tests that do not sleep.

pytest finds it by its entry point and imports it at every start, so the rest is imported when a test asks for it.
"""

from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from _pytest.terminal import TerminalReporter  # pytest has no public name for it

    from redrive.broker import BlockingBroker, Broker
    from redrive.clock import Clock
    from redrive.testing import ManualClock

_LACKS = "the engine"
"""How the reasons begin why a behaviour of the conformance suite is skipped."""

_CLOCK = "redrive_clock"
_NEEDS_PLUGIN = (
    "redrive_broker needs pytest-asyncio or the pytest plugin of anyio, and an async test; "
    "a test that is not async takes redrive_blocking_broker"
)


def pytest_configure(config: pytest.Config) -> None:
    """Add the fixture that pytest-asyncio opens, if that plugin is there."""
    if config.pluginmanager.hasplugin("asyncio"):
        config.pluginmanager.register(_asyncio_fixtures(), "redrive-asyncio")


def pytest_terminal_summary(terminalreporter: "TerminalReporter") -> None:
    """Say which behaviours of the conformance suite were skipped for each engine, and why."""
    reasons: dict[str, Counter[str]] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if "::" in report.nodeid and reason.startswith(_LACKS):
            reasons.setdefault(report.nodeid.split("::")[1], Counter())[reason] += 1
    for suite, counted in sorted(reasons.items()):
        terminalreporter.write_line(f"{suite} skips {counted.total()} behaviours of the conformance suite:")
        for reason, number in counted.most_common():
            terminalreporter.write_line(f"  {number:4}  {reason}")


@pytest.fixture
def redrive_url(tmp_path: "Path") -> str:
    """The URL of an empty SQLite database; override this fixture to test on another database."""
    return f"sqlite:///{tmp_path / 'redrive.db'}?synchronous=normal"


@pytest.fixture
def redrive_clock() -> "ManualClock":
    """A clock that stands still until the test moves it; the brokers of such a test use it."""
    from redrive.testing import ManualClock

    return ManualClock()


@pytest.fixture
def redrive_no_sleep() -> "Iterator[list[float]]":
    """Redrive does not sleep during the test; the value is the list of sleeps that were skipped."""
    from redrive.testing import no_sleep

    with no_sleep() as skipped:
        yield skipped


@pytest.fixture
def redrive_broker(request: pytest.FixtureRequest) -> "Broker":
    """A broker for async tests, open, at ``redrive_url``; it uses ``redrive_clock`` if the test requests it."""
    if "anyio_backend" in request.fixturenames:
        if request.getfixturevalue("anyio_backend_name") != "asyncio":
            pytest.fail(
                "redrive_broker needs the anyio backend 'asyncio': override the fixture anyio_backend", pytrace=False
            )
        broker: Broker = request.getfixturevalue("_redrive_broker_of_anyio")
    elif request.config.pluginmanager.hasplugin("redrive-asyncio"):
        broker = request.getfixturevalue("_redrive_broker_of_asyncio")
    else:
        pytest.fail(_NEEDS_PLUGIN, pytrace=False)
    return broker


@pytest.fixture
def redrive_blocking_broker(request: pytest.FixtureRequest, redrive_url: str) -> "Iterator[BlockingBroker]":
    """A broker for tests that are not async, open, at ``redrive_url``; its clock is that of ``redrive_broker``."""
    from redrive import connect_blocking

    with connect_blocking(redrive_url, clock=_clock(request)) as broker:
        yield broker


@pytest.fixture
async def _redrive_broker_of_anyio(request: pytest.FixtureRequest, redrive_url: str) -> "AsyncIterator[Broker]":
    async with _connect(request, redrive_url) as broker:
        yield broker


def _asyncio_fixtures() -> object:
    """Return a plugin with the fixture that pytest-asyncio opens, in its strict mode too."""
    import pytest_asyncio

    class Fixtures:
        @pytest_asyncio.fixture
        async def _redrive_broker_of_asyncio(
            self, request: pytest.FixtureRequest, redrive_url: str
        ) -> "AsyncIterator[Broker]":
            async with _connect(request, redrive_url) as broker:
                yield broker

    return Fixtures()


def _connect(request: pytest.FixtureRequest, url: str) -> "Broker":
    from redrive import connect

    return connect(url, clock=_clock(request))


def _clock(request: pytest.FixtureRequest) -> "Clock":
    """Return the test's own clock if it asks for one; a wait would last for ever in a test that does not move it."""
    from redrive.clock import system_clock

    return request.getfixturevalue(_CLOCK) if _CLOCK in request.fixturenames else system_clock
