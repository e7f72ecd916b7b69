# SPDX-License-Identifier: MIT
"""A URL says where the queues are; a wrong one says what it may be."""

import traceback
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.broker import Broker
from redrive.errors import InvalidSetting, RedriveError
from redrive.recovery import BlockingRecovery, Recovery
from redrive.routes.route_file import route_of
from redrive.testing import ManualClock
from redrive.wiring import connect, connect_blocking, open_recovery, open_routes


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


@pytest.mark.parametrize(
    ("url", "fix"),
    [
        ("postgresql+asyncpg://u:hunter2@h/d", "leave out +asyncpg: postgresql://…"),
        ("postgres+psycopg2://u:hunter2@h/d", "leave out +psycopg2: postgres://…"),
        ("sqlite+aiosqlite:///hunter2:hunter2@x.db", "leave out +aiosqlite: sqlite://…"),
        ("jdbc:postgresql://h/d?user=u&password=hunter2", "leave out jdbc:"),
        ("mysql://u:hunter2@h/d", "must be sqlite:///relative.db"),
        ("u:hunter2@h/d", "must be sqlite:///relative.db"),
        ("host=h user=u password=hunter2", "must be sqlite:///relative.db"),
        (b"postgresql://u:hunter2@h/d", "must be sqlite:///relative.db"),
        ("sqlite://u:hunter2@h/d", "a SQLite database is a file"),
        ("sqlite:///u:hunter2@h/d", "a SQLite database is a file"),
        ("sqlite:///x.db?password=hunter2", "unknown option 'password'; there is: synchronous"),
        ("sqlite:///x.db?synchronous=hunter2&password=hunter2", "unknown option 'password'"),
        ("postgresql://u:hunter2@h/d?passwd=hunter2", "unknown option 'passwd'; there is: schema, pool_size"),
        ("postgresql://u:hunter2@h/d?pool_size=hunter2", "has a pool_size that is no number"),
        ("postgresql://u:hunter2@h:port/d", "percent|quote(password, safe='')"),
        ("postgresql://u:hunter2@h:0/d", "1 to 65535"),
        ("postgresql://u:hunter2@h:70000/d", "1 to 65535"),
        ("postgresql://u:hunter2@h/d?port=x", "a port that is no number"),
        ("postgresql://u:hunter2@h/d?user=a&user=b", "has the option 'user' twice"),
        ("postgresql://u:/hunter2@h/d", "quote(password, safe='')"),
        ("postgresql://u:hunter2/x@h/d", "quote(password, safe='')"),
        ("postgresql://u:hunter2?x@h/d", "quote(password, safe='')"),
        ("postgresql://u:hunter2#x@h/d", "quote(password, safe='')"),
        ("postgresql://u:hunter2[x@h/d", "quote(password, safe='')"),
    ],
)
def test_a_url_with_a_password_is_refused_with_the_fix_and_without_the_password(url, fix):
    with pytest.raises(InvalidSetting) as caught:
        connect(url)
    assert any(each in str(caught.value) for each in fix.split("|"))
    said = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(caught.value.args)
    assert "hunter2" not in said.replace(repr(url), "").replace(str(url), "")  # the source line of this test apart


schemes = st.sampled_from(
    ["postgresql", "postgres", "postgresql+asyncpg", "sqlite", "sqlite+pysqlite", "mysql", "jdbc:postgresql", "", "u"]
)
shapes = st.sampled_from(
    [
        *("{s}://u:{p}@h/d", "{s}://u:{p}@h:5432/d?pool_size=x", "{s}://u:{p}@/d?host=/nowhere", "{s}:///u:{p}@h/d"),
        *("{s}://h/d?password={p}&x=1", "{s}://h/d?user=u&password={p}&pool_size=no", "{s}:u:{p}@h/d", "u:{p}@h/d"),
        *(
            "{s}://u:{p}",
            "{s}:///{p}@x.db?y=1",
            "host=h password={p}",
            "{s}://u:{p}@h:nine/d",
            "{s}://:{p}@h/d?sslmod=x",
        ),
        *("{s}://h/d?sslpassword={p}&nonsense={p}", "{s}://u:{p}@[::1/d", "{s}:////u:{p}@h/d?a=b"),
    ]
)
passwords = st.text(
    st.characters(codec="utf-8", exclude_characters="\n\r\t") | st.sampled_from("@:/?#[]%&=+ '\"\\"),
    min_size=1,
    max_size=8,
).map(lambda text: f"hun{text}ter2")


@given(schemes, shapes, passwords)
def test_no_error_about_a_url_has_a_password_in_it(scheme, shape, password):
    url = shape.format(s=scheme, p=password)
    try:
        broker = connect(url)
    except RedriveError as error:
        said = f"{error!s} {error!r} {error.args} {vars(error)} {error.__cause__!r}"
    else:
        said = f"{broker!r} {broker.engine!r}"
    for part in (password, quote(password), "hun", "ter2"):
        assert part not in said


async def test_neither_has_an_error_of_the_database():
    for url in (
        "postgresql://somebody:hunter2@/shop?host=/nowhere",
        "postgresql:///shop?host=/nowhere&password=hunter2",
    ):
        with pytest.raises(RedriveError, match="/nowhere") as caught:
            async with connect(url) as broker:
                await broker.queues()
        assert "hunter2" not in "".join(traceback.format_exception(caught.value)).replace(url, "")


def test_what_is_wrong_with_a_store_is_said_of_the_store():
    with pytest.raises(InvalidSetting, match="leave out") as caught:
        open_recovery(connect("sqlite:///:memory:"), "postgresql+asyncpg://u:hunter2@h/d")
    assert (caught.value.setting, caught.value.value) == ("store", "postgresql+asyncpg://…")


def test_recovery_is_of_the_kind_of_its_broker():
    assert isinstance(open_recovery(connect("sqlite:///:memory:")), Recovery)
    assert isinstance(open_recovery(connect_blocking("sqlite:///:memory:")), BlockingRecovery)


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


async def test_recovery_knows_the_queues_of_routes():
    async with (
        connect("sqlite:///:memory:") as broker,
        open_routes(broker) as routes,
        open_recovery(broker) as recovery,
    ):
        await broker.declare("orders")
        parts = {"source": {"kind": "queue", "queue": "orders"}, "sender": {"kind": "queue", "queue": "billing"}}
        await broker.declare("billing")
        await routes.add(route_of({"name": "big", **parts}))
        (queue,) = (await recovery.settled("route:big")).queues
        assert queue.endswith("/big")
        with pytest.raises(InvalidSetting, match="must be a route that is stored here"):
            await recovery.count("route:small")


async def test_the_clock_decides(tmp_path):
    clock = ManualClock()
    async with connect(f"sqlite:///{tmp_path}/orders.db", clock=clock) as broker:
        await broker.declare("orders")
        await broker.schedule("orders", b"later", 30)
        assert await broker.receive("orders") == []
        clock.advance(30)
        assert [found.body for found in await broker.receive("orders")] == [b"later"]
        assert broker.clock is clock
