# SPDX-License-Identifier: MIT
"""Recovery without an event loop: every verb, its iterators, and every way to begin and to end."""

import inspect
import threading

import pytest

from redrive import connect, connect_blocking, open_recovery, wiring
from redrive.broker import Message, headers
from redrive.errors import FailureNotFound, UsageError
from redrive.recovery import BlockingRecovery, OperationState, Recovery
from tests.patience import PATIENCE_S

NOT_FOR_BLOCKING_CODE = {"ledger"}
"""A port of coroutines."""


@pytest.fixture
def broker():
    with connect_blocking("sqlite:///:memory:") as broker:
        broker.declare("orders")
        broker.declare("error")
        yield broker


def fail(broker, count=3):
    """Put failed messages into the error queue."""
    failed = {headers.FAILED_QUEUE: "orders", headers.FAILED_EXCEPTION_TYPE: "OSError"}
    broker.send_many("error", [Message(b"x", id=f"m{number}", headers=failed) for number in range(count)])


def test_it_has_every_verb_of_its_twin():
    public = {name for name in dir(Recovery) if not name.startswith("_")} - NOT_FOR_BLOCKING_CODE
    assert {name for name in dir(BlockingRecovery) if not name.startswith("_")} == public
    for name in public:
        ours, theirs = getattr(BlockingRecovery, name), getattr(Recovery, name)
        if callable(ours):
            assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters, name
            assert not inspect.iscoroutinefunction(ours), name
            assert not inspect.isasyncgenfunction(ours), name


def test_its_options_are_the_same_for_both_brokers():
    parameters = inspect.signature(open_recovery).parameters
    assert list(wiring.OpenRecoveryOptions.__annotations__) == list(parameters)[2:]


def test_failures_are_found_and_recovered(broker):
    fail(broker)
    with open_recovery(broker) as recovery:
        assert recovery.ingest()
        assert (recovery.count(), len(recovery.failed(limit=2))) == (3, 2)
        assert [detail.message.id for detail in recovery.export()] == ["m0", "m1", "m2"]
        operation = recovery.recover("status:unresolved", actor="ana")
        while recovery.step():
            pass
        states = [each.state for each in recovery.follow(operation.number)]
        assert states[-1] is OperationState.COMPLETED
        assert [order.body for order in broker.receive("orders", max_messages=10)] == [b"x"] * 3
        with pytest.raises(FailureNotFound):
            recovery.show("0" * 32)


def test_an_iterator_may_be_left_early(broker):
    fail(broker)
    with open_recovery(broker) as recovery:
        recovery.ingest()
        for detail in recovery.export():
            assert detail.message.id == "m0"
            break
        left = recovery.export()
        assert next(left).message.id == "m0"
    broker.close()
    left.close()


def test_it_runs_in_a_thread_until_it_is_stopped(broker):
    with open_recovery(broker) as recovery:
        thread = threading.Thread(target=recovery.run)
        thread.start()
        fail(broker, 1)
        while not recovery.count():
            pass
        recovery.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@pytest.mark.parametrize("closing", ["recovery", "broker"])
def test_closing_it_or_its_broker_ends_what_runs(tmp_path, closing):
    """Also with a store of its own, which must not be closed under the work."""
    broker = connect_blocking(f"sqlite:///{tmp_path}/queues.db")
    broker.open()
    recovery = open_recovery(broker, f"sqlite:///{tmp_path}/store.db")
    recovery.open()
    problems = []

    def run():
        try:
            recovery.run()
        except BaseException as error:  # noqa: BLE001 - whatever it is
            problems.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not recovery.services():
        pass
    {"recovery": recovery, "broker": broker}[closing].close()
    thread.join(PATIENCE_S)
    assert (thread.is_alive(), problems) == (False, [])
    recovery.close()
    broker.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["queues.db", "store.db"], "both were closed"


def test_it_can_be_opened_again_with_its_broker(tmp_path):
    broker = connect_blocking(f"sqlite:///{tmp_path}/x.db")
    recovery = open_recovery(broker, sources=["error"])
    with pytest.raises(UsageError, match="not open; open it first"):
        recovery.open()
    for number in range(2):
        broker.open()
        recovery.open()
        with pytest.raises(UsageError, match="this recovery is open already"):
            recovery.open()
        broker.declare("error")
        fail(broker, 1)
        thread = threading.Thread(target=recovery.run)
        thread.start()
        while recovery.count() <= number:
            fail(broker, number + 1)
        broker.close()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    recovery.close()
    with pytest.raises(UsageError, match="closed; open it again"):
        recovery.count()


def test_a_callback_that_waits_for_its_broker_is_refused(broker):
    refusals = []

    def look(_event):
        with pytest.raises(UsageError, match="own thread") as refused:
            broker.queues()
        refusals.append(refused)

    fail(broker, 1)
    with open_recovery(broker, on_event=look) as recovery:
        recovery.ingest()
    assert len(refusals) == 1


async def test_async_with_is_refused():
    with pytest.raises(UsageError, match="its broker blocks"):
        async with open_recovery(connect_blocking("sqlite:///:memory:")):
            pass


async def test_the_async_one_can_be_opened_and_closed_without_a_block():
    async with connect("sqlite:///:memory:") as broker:
        recovery = open_recovery(broker)
        await recovery.close()
        for _ in range(2):
            await recovery.open()
            with pytest.raises(UsageError, match="open already"):
                await recovery.open()
            assert await recovery.count() == 0
            await recovery.close()
