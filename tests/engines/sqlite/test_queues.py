# SPDX-License-Identifier: MIT
"""Queues are read once and again only when somebody has changed them."""

import sqlite3

import pytest

from redrive.broker import QueueSettings
from redrive.engines.sqlite.queues import Queues
from redrive.engines.sqlite.schema import migrate
from redrive.errors import InvalidSetting, QueueNotFound


@pytest.fixture
def connection():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    yield connection
    connection.close()


@pytest.fixture
def queues(connection):
    queues = Queues()
    queues.refresh(connection)
    assert queues.create(connection, "orders", QueueSettings(lock_duration=5, requires_session=True), 100.0)
    return queues


def statements(connection, do):
    seen = []
    connection.set_trace_callback(seen.append)
    do()
    connection.set_trace_callback(None)
    return seen


def test_a_queue_has_a_dead_letter_queue(queues):
    orders, dead = queues.get("orders"), queues.get("orders/$dead")
    assert (orders.dead_id, dead.dead_id) == (dead.id, dead.id)
    assert dead.settings == QueueSettings(lock_duration=5, max_delivery_count=2_000)
    assert queues.by_id(orders.id) is orders
    assert {queue.name for queue in queues.all()} == {"orders", "orders/$dead"}


def test_nothing_is_read_again_while_nothing_changes(connection, queues):
    assert len(statements(connection, lambda: queues.refresh(connection))) == 1


def test_a_change_by_another_is_seen(connection, queues):
    other = Queues()
    other.refresh(connection)
    other.change(connection, "orders", QueueSettings(max_delivery_count=3, requires_session=True))
    assert queues.get("orders").settings.max_delivery_count == 10
    queues.refresh(connection)
    assert queues.get("orders").settings.max_delivery_count == 3
    other.remove(connection, "orders")
    queues.refresh(connection)
    with pytest.raises(QueueNotFound):
        queues.get("orders")


def test_a_queue_that_another_has_deleted_is_gone_though_others_were_made_since(connection, queues):
    other = Queues()
    other.refresh(connection)
    other.remove(connection, "orders")
    other.create(connection, "billing", QueueSettings(), 1.0)
    queues.refresh(connection)
    assert sorted(queue.name for queue in queues.all()) == ["billing", "billing/$dead"]
    assert queues.get("billing").dead_id == queues.get("billing/$dead").id


def test_a_changed_queue_keeps_its_dead_letter_queue_in_the_memory_of_others(connection, queues):
    other = Queues()
    other.refresh(connection)
    queues.change(connection, "orders", QueueSettings(max_delivery_count=3, requires_session=True))
    other.refresh(connection)
    assert other.get("orders") == queues.get("orders")


def test_a_failure_that_changed_no_queue_reads_none_again(connection, queues):
    queues.is_changed = False
    queues.forget()
    assert reads_of_all(connection, lambda: queues.refresh(connection)) == 0


def test_what_was_rolled_back_is_forgotten(connection, queues):
    connection.execute("BEGIN")
    queues.create(connection, "billing", QueueSettings(), 1.0)
    connection.execute("ROLLBACK")
    queues.forget()
    queues.refresh(connection)
    with pytest.raises(QueueNotFound):
        queues.get("billing")


def test_a_queue_is_made_once(connection, queues):
    assert queues.create(connection, "orders", QueueSettings(), 1.0) is False


def test_what_would_hide_messages_is_refused(connection, queues):
    with pytest.raises(InvalidSetting, match="requires_session"):
        queues.change(connection, "orders", QueueSettings())
    with pytest.raises(InvalidSetting, match="dead-letter queue"):
        queues.remove(connection, "orders/$dead")


def reads_of_all(connection, do):
    return sum("version > -1" in text for text in statements(connection, do))


def test_making_changing_and_removing_queues_does_not_read_them_all(connection, queues):
    def work():
        for number in range(50):
            assert queues.create(connection, f"{number}", QueueSettings(), 1.0)
            queues.change(connection, f"{number}", QueueSettings(max_delivery_count=3))
        for number in range(25):
            queues.remove(connection, f"{number}")
        queues.refresh(connection)

    assert reads_of_all(connection, work) == 0
    remembered = sorted(queues.all(), key=lambda queue: queue.id)
    queues.forget()
    queues.refresh(connection)
    assert sorted(queues.all(), key=lambda queue: queue.id) == remembered, "what is in memory is what is stored"
    assert [queues.by_id(queue.id) for queue in remembered] == remembered


def test_others_read_what_was_changed_once(connection, queues):
    other = Queues()
    other.refresh(connection)
    for number in range(10):
        queues.create(connection, f"{number}", QueueSettings(), 1.0)
    read = statements(connection, lambda: [other.refresh(connection) for _ in range(5)])
    assert len(read) == 5 + 1
    assert sum("version > -1" in text for text in read) == 0, "the one that was there before is not read again"
    assert sorted(queue.name for queue in other.all()) == sorted(queue.name for queue in queues.all())
