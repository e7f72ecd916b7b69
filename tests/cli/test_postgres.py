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


ROUTES = """[routes.big]
source = { kind = "queue", queue = "orders" }
sender = { kind = "queue", queue = "big" }
"""


@pytest.mark.usefixtures("url")
def test_routes_are_added_paused_replayed_and_removed(ok, read, tmp_path):
    (tmp_path / "routes.toml").write_text(ROUTES)
    for queue in ("orders", "big"):
        ok("queues", "declare", queue)
    assert ok("routes", "add", "routes.toml") == "added      big\n"
    ok("routes", "pause", "big")
    ok("send", "routes/default/queue/orders", "lamp")
    ok("receive", "routes/default/queue/orders/big", "--dead-letter", "broken")
    assert [each["body"] for each in read("routes", "dead", "big")] == ["lamp"]
    assert ok("routes", "replay", "big", "--yes") == "replayed 1 dead event on route big\n"
    assert [(each["state"], each["waiting"]) for each in read("routes")] == [("paused", 1)]
    assert "route big is removed, with 1 dead event" in ok("routes", "remove", "big", "--yes")
    assert read("routes") == []


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
