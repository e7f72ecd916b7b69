# SPDX-License-Identifier: MIT
"""The commands on PostgreSQL: nothing but the URL is different."""

import pytest


@pytest.fixture
def url(postgres_url, postgres_schema, monkeypatch):
    where = f"{postgres_url}&schema={postgres_schema}"
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
def test_a_queue_that_was_perhaps_meant_is_named(ok, refused):
    ok("queues", "declare", "orders")
    assert "there is no queue 'ordres'; did you mean 'orders'?" in refused("send", "ordres", "x", status=5)
    assert "did you mean 'orders'?" in refused("recover", "--all", "--to", "ordres", "--yes", status=5)


def test_a_server_that_is_not_there_is_named_without_the_password(refused, monkeypatch):
    monkeypatch.setenv("REDRIVE_URL", "postgresql://somebody:secret@/shop?host=/nowhere")
    told = refused("queues")
    assert "somebody@/shop" in told
    assert "secret" not in told
    assert "Traceback" not in told
