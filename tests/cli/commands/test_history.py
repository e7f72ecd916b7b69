# SPDX-License-Identifier: MIT
"""``redrive history``, run as a person runs it."""

import pytest


def test_each_queue_has_a_line_and_a_total(ok, orders):
    ok("queues", "declare", "bills")
    ok("send", orders, "one", "--count", "3")
    ok("send", "bills", "two")
    heading, *lines = ok("history").splitlines()
    assert heading.split() == ["queue", "line", "highest", "total"]
    assert [(line.split()[0], line.split()[-1]) for line in lines] == [("bills", "1"), ("orders", "3")]


def test_a_line_ends_with_what_has_just_happened(ok, orders):
    ok("send", orders, "one")
    line = ok("history", "--span", "10m").splitlines()[1].split()[1]
    assert len(line) == 10
    assert set(line[:8]) == {"▁"}
    assert "█" in line[8:] or "▇" in line[8:]


def test_json_has_a_value_for_every_step(read, ok, orders):
    ok("send", orders, "one", "--count", "3")
    (series,) = read("history", "sent", "--name", orders, "--span", "1h")
    assert (series["metric"], series["topic"], series["name"], series["step"]) == ("sent", "queue", "orders", 60)
    assert (len(series["values"]), sum(series["values"])) == (60, 3)


@pytest.mark.usefixtures("orders")
def test_where_nothing_happened_it_says_so(ok):
    assert "no queue has any dead in the last 24 h" in ok("history", "dead")


@pytest.mark.usefixtures("orders")
def test_a_metric_that_is_not_there_is_refused(refused):
    assert "must be one of sent, delivered" in refused("history", "velocity", status=2)


@pytest.mark.usefixtures("orders")
def test_a_level_has_gaps_where_nobody_noted_it(read):
    (series,) = read("history", "ready", "--name", "orders", "--span", "5m")
    assert series["values"] == [None] * 5
