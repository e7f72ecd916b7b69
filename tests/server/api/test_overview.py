# SPDX-License-Identifier: MIT
"""What needs a person, how things stand, and an operation over time."""

from redrive.access import Role


async def test_what_needs_a_person_is_said_in_sentences(client, fail, as_someone):
    await fail("orders")
    items = (await client.get("/attention")).json()["attention"]
    assert [each["rule"] for each in items] == ["new-group"]
    assert items[0]["subject"].startswith("group:")
    limited = as_someone(Role.VIEWER, queues=("orders",))
    for path in ("/attention", "/figures"):
        assert (await limited.get(path)).json()["code"] == "forbidden"


async def test_figures_say_how_things_stand(client, fail, desk):
    await fail("orders")
    await desk.broker.send("orders", "waits")
    await desk.history.flush()
    figures = (await client.get("/figures")).json()
    counts = {name: figures[name] for name in ("unresolved", "new_groups", "failed_today", "waiting", "operations")}
    assert counts == {"unresolved": 3, "new_groups": 1, "failed_today": 3, "waiting": 1, "operations": 0}
    assert figures["oldest_at"] is not None
    assert list(figures["caught"]) == ["retry", "redeliver", "replay", "re-run", "recover"]


async def test_an_operation_over_time_has_its_samples_and_its_pace(client, fail, desk, as_someone):
    await fail("orders")
    asked = await desk.recovery.archive("queue:orders")
    while not (await desk.recovery.operation(asked.number)).is_over:
        await desk.recovery.step()
    await desk.broker.engine.upkeep()
    found = (await client.get(f"/operations/{asked.number}/series")).json()
    assert found["number"] == asked.number
    assert found["samples"][-1]["sent"] == 3
    assert found["left_s"] is None
    elsewhere = as_someone(Role.VIEWER, queues=("billing",))
    for client_, number in ((elsewhere, asked.number), (client, 999)):
        assert (await client_.get(f"/operations/{number}/series")).json()["code"] == "operation-not-found"
