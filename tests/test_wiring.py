# SPDX-License-Identifier: MIT
"""A URL says where the queues are; a wrong one says what it may be."""

import pytest

from redrive.broker import Broker
from redrive.errors import InvalidSetting
from redrive.testing import ManualClock
from redrive.wiring import connect


@pytest.mark.parametrize(
    "url",
    [
        "",
        "orders.db",
        "sqlite:",
        "sqlite://",
        "sqlite:///",
        "sqlite://orders.db",
        "sqlite://host/orders.db",
        "mysql://host/db",
        "SQLITE",
        None,
        7,
        b"sqlite:///x",
    ],
)
def test_a_wrong_url_is_named_with_the_forms_there_are(url):
    with pytest.raises(InvalidSetting, match="sqlite:///") as caught:
        connect(url)
    assert (caught.value.setting, caught.value.value) == ("url", url)


@pytest.mark.parametrize("query", ["mode=ro", "synchronous=full&x=1", "Synchronous=full"])
def test_an_unknown_option_is_named(query):
    with pytest.raises(InvalidSetting, match="unknown option"):
        connect(f"sqlite:///x.db?{query}")


@pytest.mark.parametrize("value", ["off", "FULL", "0"])
def test_an_option_with_a_wrong_value_is_named(value):
    with pytest.raises(InvalidSetting, match="synchronous"):
        connect(f"sqlite:///x.db?synchronous={value}")


async def test_a_relative_path_is_beside_the_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with connect("sqlite:///orders.db") as broker:
        assert isinstance(broker, Broker)
        await broker.declare("orders")
    assert (tmp_path / "orders.db").exists()


async def test_an_absolute_path_has_four_slashes_and_may_have_odd_letters(tmp_path):
    folder = tmp_path / "a b%ü"
    folder.mkdir()
    escaped = str(folder).replace("%", "%25").replace(" ", "%20")
    async with connect(f"sqlite:///{escaped}/orders.db?synchronous=normal"):
        assert (folder / "orders.db").exists()


async def test_queues_in_memory_end_with_the_broker():
    for _ in range(2):
        async with connect("sqlite:///:memory:") as broker:
            assert await broker.queues() == []
            await broker.declare("orders")


async def test_the_clock_decides(tmp_path):
    clock = ManualClock()
    async with connect(f"sqlite:///{tmp_path}/orders.db", clock=clock) as broker:
        await broker.declare("orders")
        await broker.schedule("orders", b"later", 30)
        assert await broker.receive("orders") == []
        clock.advance(30)
        assert [found.body for found in await broker.receive("orders")] == [b"later"]
        assert broker.clock is clock
