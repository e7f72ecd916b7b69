# SPDX-License-Identifier: MIT
"""The commands on NATS: the URL is different, and failed messages are kept in a store that is named."""

import pytest


@pytest.fixture
def url(engine_server, nats_namespace, monkeypatch):
    where = f"{engine_server.url}/{nats_namespace}?replicas=1"
    monkeypatch.setenv("REDRIVE_URL", where)
    return where


@pytest.mark.usefixtures("url")
def test_a_message_is_sent_received_buried_and_sent_again(ok, read):
    ok("queues", "declare", "orders")
    ok("send", "orders", "lamp")
    ok("receive", "orders", "--dead-letter", "broken")
    (dead,) = read("dead", "list", "orders")
    assert dead["body"] == "lamp"
    ok("dead", "resubmit", "orders", "--yes")
    assert [one["body"] for one in read("peek", "orders")] == ["lamp"]
    assert read("queues")[0]["ready"] == 1


@pytest.mark.usefixtures("url")
def test_failed_messages_are_recovered_from_a_store_beside_the_queues(ok, read, tmp_path):
    store = f"sqlite:///{tmp_path}/failures.db"
    for queue in ("error", "orders"):
        ok("queues", "declare", queue)
    ok("send", "error", "lamp", "--header", "redrive-failed-queue=orders")
    ok("ingest", "--store", store)
    ok("recover", "--all", "--yes", "--store", store)
    assert [one["body"] for one in read("peek", "orders")] == ["lamp"]


def test_a_server_that_is_not_there_is_named_without_the_password(refused, monkeypatch):
    monkeypatch.setenv("REDRIVE_URL", "nats://somebody:secret@127.0.0.1:1/shop")
    told = refused("queues")
    assert "127.0.0.1:1" in told
    assert "secret" not in told
    assert "Traceback" not in told
