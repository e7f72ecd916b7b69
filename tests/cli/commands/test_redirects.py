# SPDX-License-Identifier: MIT
"""``redrive redirects``, run as a person runs it."""

import pytest


@pytest.fixture(autouse=True)
def _queues(ok):
    for queue in ("orders", "orders-v2", "error"):
        ok("queues", "declare", queue)


def test_a_redirect_is_made_listed_and_removed(ok, read):
    assert ok("redirects", "list") == "no redirects: failed messages go to the queue they failed in\n"
    assert ok("redirects", "add", "orders", "orders-v2") == "failed messages of orders go to orders-v2 from now on\n"
    assert ok("redirects", "list").split() == ["failed", "in", "goes", "to", "orders", "orders-v2"]
    assert read("redirects", "list") == [{"from": "orders", "to": "orders-v2"}]
    assert ok("redirects", "remove", "orders") == "failed messages of orders go to orders again\n"
    assert read("redirects", "list") == []


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("add", "orders", "nowhere"), 5, "there is no queue 'nowhere'"),
        (("add", "error", "orders"), 7, "redirect to 'orders-v2' instead"),
        (("add", "orders-v2", "error"), 7, "those of 'orders' go to 'orders-v2'"),
        (("add", "orders", "error"), 7, "remove that redirect first"),
        (("add", "error", "error"), 7, "they go there anyway"),
        (("remove", "error"), 7, "there is no redirect to remove"),
    ],
)
def test_what_cannot_be_redirected_says_why(ok, run, arguments, status, said):
    ok("redirects", "add", "orders", "orders-v2")
    ran = run("redirects", *arguments)
    assert ran.exit_code == status
    assert said in ran.stderr
    assert ran.stdout == ""


def test_refusals_are_on_the_trail(ok, run, read):
    run("redirects", "add", "orders", "nowhere", "--actor", "ana")
    ok("redirects", "add", "orders", "orders-v2", "--actor", "bob")
    trail = read("operations", "trail", "--subject", "queue:orders", "--action", "redirect")
    assert [(each["actor"], each["outcome"].partition(":")[0]) for each in trail] == [
        ("bob", "to orders-v2"),
        ("ana", "refused"),
    ]
    assert "redirect queue:orders  by ana" in ok("operations", "trail")
