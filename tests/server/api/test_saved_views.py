# SPDX-License-Identifier: MIT
"""Filters that people keep under a name."""

import pytest

from redrive.access import Role


@pytest.fixture
def ann(as_someone):
    return as_someone(Role.OPERATOR, name="ann")


@pytest.fixture
def bob(as_someone):
    return as_someone(Role.OPERATOR, name="bob", queues=("elsewhere",))


async def saved(client, name="today", **more):
    answer = await client.post("/views", json={"name": name, "filter": "queue:orders age<1d", **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_view_is_kept_as_it_was_written_and_seen_by_all(ann, bob):
    made = await saved(ann, by="queue")
    assert (made["filter"], made["by"], made["owner"]) == ("queue:orders age<1d", "queue", "ann")
    assert (await bob.get("/views")).json() == [made]


async def test_saving_under_the_same_name_replaces_ones_own_view_only(ann, bob):
    first, theirs = await saved(ann), await saved(bob)
    again = await saved(ann, filter="status:any")
    assert again["number"] == first["number"] != theirs["number"]
    found = {each["number"]: each["filter"] for each in (await ann.get("/views")).json()}
    assert found == {first["number"]: "status:any", theirs["number"]: "queue:orders age<1d"}


async def test_a_view_is_removed_by_its_owner_or_by_an_admin(ann, bob, client, desk):
    first, second = await saved(ann), await saved(ann, "other")
    refused = await bob.delete(f"/views/{first['number']}")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert (await ann.delete(f"/views/{first['number']}")).json() == first
    assert (await client.delete(f"/views/{second['number']}")).json() == second
    assert (await client.delete(f"/views/{second['number']}")).json()["code"] == "view-not-found"
    entries = [each for each in await desk.recovery.trail() if each.action == "views.change"]
    assert {each.outcome.partition(":")[0] for each in entries} == {"begun", "done", "refused"}


async def test_a_filter_that_cannot_be_understood_is_not_saved(ann):
    answer = await ann.post("/views", json={"name": "odd", "filter": "qeue:orders"})
    assert answer.json()["code"] == "invalid-filter"
    assert (await ann.get("/views")).json() == []
