# SPDX-License-Identifier: MIT
"""An event loop in a thread: opened and closed more than once, by any thread, in the process that opened it."""

import asyncio
import subprocess
import sys
import threading
from functools import partial

import pytest

from redrive import connect, connect_blocking
from redrive.broker.portal import Portal
from redrive.errors import UsageError
from tests.patience import PATIENCE_S


@pytest.fixture
def portal():
    portal = Portal()
    portal.open()
    yield portal
    portal.close()


async def raising(error):
    raise error


async def answer():
    return 42


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError, ZeroDivisionError])
def test_what_a_coroutine_raises_is_raised_by_the_call_and_the_loop_goes_on(portal, kind):
    with pytest.raises(kind):
        portal.run(raising(kind("on purpose")))
    assert portal.run(answer()) == 42


def test_it_can_be_opened_again():
    portal = Portal()
    for _ in range(2):
        portal.open()
        assert portal.run(answer()) == 42
        portal.close()
        portal.close()


def test_it_has_no_thread_before_it_is_opened():
    before = threading.active_count()
    portal = Portal()
    assert threading.active_count() == before
    with pytest.raises(UsageError, match=r"not open; open it first: with connect_blocking\(\.\.\.\)"):
        portal.run(answer())


def test_opening_twice_is_refused(portal):
    with pytest.raises(UsageError, match="open already"):
        portal.open()
    assert portal.run(answer()) == 42


def test_a_call_of_another_thread_ends_when_it_is_closed(monkeypatch):
    monkeypatch.setattr("redrive.broker.portal._PATIENCE_S", 0.01)
    portal, begun, ended = Portal(), threading.Event(), []
    portal.open()

    async def wait():
        begun.set()
        await asyncio.get_running_loop().create_future()

    def call():
        with pytest.raises(UsageError, match="closed; open it again"):
            portal.run(wait())
        ended.append(True)

    thread = threading.Thread(target=call)
    thread.start()
    assert begun.wait(PATIENCE_S)
    portal.close()
    thread.join(PATIENCE_S)
    assert ended == [True]


# --- the broker


def run(program, *arguments):
    """Run a program; return what it printed, and what it complained of."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.stdout, done.stderr


AT_EXIT = """
import atexit, sys, threading
from redrive import connect_blocking, open_recovery

url, *how = sys.argv[1:]
broker = connect_blocking(url)
recovery = open_recovery(broker)
broker.open()
recovery.open()
if "closed" in how:
    atexit.register(broker.close)
broker.declare("orders")
broker.send("orders", "one")
for work in (recovery.run, lambda: broker.receive("orders", wait=600)):
    threading.Thread(target=work, daemon=True).start()
while not recovery.services() or not broker.inspect("orders").locked:
    pass
print("sent")
"""


LATE = """
import atexit, sys, threading
from redrive import connect_blocking
from redrive.testing import ManualClock

clock = ManualClock()
broker = connect_blocking(sys.argv[1], clock=clock, upkeep_every=5)
broker.open()
broker.declare("orders")
atexit.register(broker.close)
for _ in range(100):
    atexit.register(clock.advance, 5)  # rounds of upkeep begin, and no thread can be started any more
"""


def test_upkeep_at_the_very_end_of_a_program_disturbs_nothing(tmp_path):
    assert run(LATE, f"sqlite:///{tmp_path}/x.db") == ("", "")


@pytest.mark.parametrize("how", ["closed", "left open"])
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_program_ends_in_peace(tmp_path, request, engine, how):
    """With work under way in daemon threads, as in a web server, whether or not anything closes the broker."""
    url = f"sqlite:///{tmp_path}/x.db"
    if engine == "postgres":
        url = f"{request.getfixturevalue('postgres_url')}&schema={request.getfixturevalue('postgres_schema')}"
    assert run(AT_EXIT, url, how) == ("sent\n", "")
    if (engine, how) == ("sqlite", "closed"):
        assert [path.name for path in tmp_path.iterdir()] == ["x.db"], "it was closed, not left behind"


def test_any_number_of_threads_may_close_a_broker(tmp_path):
    broker = connect_blocking(f"sqlite:///{tmp_path}/x.db")
    for _ in range(3):
        broker.open()
        problems = []

        def close():
            try:
                broker.close()
                broker.close()
            except BaseException as error:  # noqa: BLE001 - whatever it is
                problems.append(error)  # noqa: B023 - the thread is joined in this pass

        threads = [threading.Thread(target=close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert problems == []
    assert [path.name for path in tmp_path.iterdir()] == ["x.db"]


def test_what_ends_with_the_loop_ends_first_and_all_of_it_ends():
    portal, ended = Portal(), []
    portal.open()

    async def end(name):
        ended.append(name)
        if name == "second":
            raise ZeroDivisionError

    first, second, third = (partial(end, name) for name in ("first", "second", "third"))
    for each in (first, second, third):
        portal.close_first(each)
    portal.end(third)
    portal.end(third)
    with pytest.raises(ZeroDivisionError):
        portal.close()
    assert (ended, portal.is_open) == (["third", "second", "first"], False)


FORK = """
import asyncio, os, sys
from redrive import connect, connect_blocking, open_recovery

def tell(what):
    print(what.replace(str(os.getpid()), "CHILD").replace(str(os.getppid()), "PARENT"), flush=True)

def in_child(call):
    if os.fork():
        os.wait()
        return
    try:
        call()
    except Exception as error:
        tell(f"{type(error).__name__}: {error}")
    else:
        tell("fine")
    sys.stdout.flush()
    os._exit(0)

with connect_blocking(sys.argv[1]) as broker, open_recovery(broker) as recovery:
    broker.declare("orders")
    in_child(lambda: broker.send("orders", "from the child"))
    in_child(recovery.count)
    in_child(recovery.close)
    in_child(broker.open)
    in_child(broker.close)
    broker.send("orders", "from the parent")

async def main():
    async with connect(sys.argv[1]) as broker:
        in_child(lambda: asyncio.run(broker.send("orders", "from the child")))
        in_child(lambda: asyncio.run(broker.open()))
        in_child(lambda: asyncio.run(broker.close()))
        await broker.send("orders", "from the parent")
        print((await broker.inspect("orders")).ready)

asyncio.run(main())
"""


def forked(url):
    out, complaints = run(FORK, url)
    told = "this broker was opened by process PARENT, and this is process CHILD, forked from it: open a broker in each"
    kinds = [line.partition(": ")[0] if told in line else line for line in out.splitlines()]
    return kinds, complaints


REFUSED = ["UsageError", "UsageError", "fine"]
RECOVERY_REFUSED = ["UsageError", *REFUSED[1:], *REFUSED[1:]]
"""To send; to count failures and to close their recovery; to open the broker and to close it."""


def test_a_broker_that_was_opened_before_a_fork_says_so(tmp_path):
    assert forked(f"sqlite:///{tmp_path}/x.db") == ([*RECOVERY_REFUSED, *REFUSED, "2"], "")


def test_so_does_one_on_postgresql(postgres_url, postgres_schema):
    assert forked(f"{postgres_url}&schema={postgres_schema}") == ([*RECOVERY_REFUSED, *REFUSED, "2"], "")


def test_a_blocking_broker_can_be_opened_and_closed_without_a_block(tmp_path):
    broker = connect_blocking(f"sqlite:///{tmp_path}/x.db")
    with pytest.raises(UsageError, match="not open"):
        broker.queues()
    broker.close()  # nothing to close
    for number in range(2):
        broker.open()
        broker.declare("orders")
        broker.send("orders", "one")
        assert len(broker.receive("orders", wait=5)) == 1
        assert broker.inspect("orders").locked == number + 1
        with pytest.raises(UsageError, match="open already"):
            broker.open()
        broker.close()
    with pytest.raises(UsageError, match="closed; open it again"):
        broker.queues()


async def test_a_broker_can_be_opened_and_closed_without_a_block():
    broker = connect("sqlite:///:memory:")
    with pytest.raises(UsageError, match="not open"):
        await broker.queues()
    for _ in range(2):
        await broker.open()
        assert await broker.queues() == []
        with pytest.raises(UsageError, match="open already"):
            await broker.open()
        await broker.close()
    with pytest.raises(UsageError, match="closed; open it again"):
        await broker.queues()


def test_one_broker_can_be_used_by_one_event_loop_after_another(tmp_path):
    broker = connect(f"sqlite:///{tmp_path}/x.db")

    async def once():
        async with broker:
            await broker.declare("orders")
            await asyncio.gather(*(broker.send("orders", "x") for _ in range(5)))
            return (await broker.inspect("orders")).ready

    assert [asyncio.run(once()) for _ in range(3)] == [5, 10, 15]


def test_with_instead_of_async_with_is_told():
    with (
        pytest.raises(UsageError, match=r"async with connect\(\.\.\.\).*with connect_blocking"),
        connect("sqlite:///:memory:"),
    ):
        pass


async def test_async_with_instead_of_with_is_told():
    with pytest.raises(UsageError, match=r"with connect_blocking.*async with connect"):
        async with connect_blocking("sqlite:///:memory:"):
            pass


def test_a_users_part_that_ends_the_program_leaves_the_blocking_broker_working():
    def leave(_connection):
        raise SystemExit(3)

    with connect_blocking("sqlite:///:memory:") as broker:
        broker.declare("orders")
        with pytest.raises(SystemExit):
            broker.apply(inside=leave)
        assert broker.send("orders", "after") == 1
