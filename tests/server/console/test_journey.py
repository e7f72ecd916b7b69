# SPDX-License-Identifier: MIT
"""Find and journey: every record of a message, gaps where nothing is known, and what to do if it is not found."""

from redrive.access import Role
from redrive.server.console.journey_graph import rows_of
from tests.server.console.conftest import HOSTILE
from tests.server.console.html import page_of


async def test_a_message_is_found_by_its_id_and_its_journey_is_drawn(seeded, browser):
    failed = (await seeded.recovery.failed("queue:bills status:any"))[0]
    answer = await browser.get("/find", params={"id": f" {failed.message_id} "})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/journey/{failed.message_id}")
    page = page_of(await browser.get(answer.headers["location"]))
    assert "Where the time went" in page.text
    assert "recover 1" in page.text
    assert {"/operations/1", f"/failed/{failed.id}", "/queues/bills"} <= set(page.links)


async def test_an_unresolved_failure_can_be_recovered_from_its_journey(seeded, as_role):
    failed = (await seeded.recovery.failed("queue:orders"))[0]
    path = f"/journey/{failed.message_id}"
    assert f"/failed/recover?q=id%3A{failed.id}" in page_of(await as_role().get(path)).links
    assert "ann is viewer, and this needs operator" in page_of(await as_role(Role.VIEWER).get(path)).disabled
    assert (await as_role(Role.ADMIN, queues=("orders",)).get(path)).status_code == 403


async def test_what_is_not_known_is_said_with_where_else_to_look(browser):
    for address in ("/find?id=nowhere", "/journey/nowhere"):
        answer = await browser.get(address)
        assert answer.status_code == 404
        page = page_of(answer)
        assert "Nothing is known of nowhere" in page.text
        assert "/jump?q=nowhere" in page.links
    answer = await browser.get("/find", params={"id": HOSTILE})
    assert "<script>alert" not in answer.text
    assert "Find a message" in page_of(await browser.get("/find")).text


def at(second):
    return f"2026-11-17T10:{second // 60:02d}:{second % 60:02d}+00:00"


def node(name, begin, *happenings, kind="message", state="completed", end=0):
    told = [{"at": at(second), "event": event, "said": ""} for second, event in happenings]
    return {
        "id": name,
        "kind": kind,
        "layer": "redeliver",
        "title": name,
        "message_id": name,
        "state": state,
        "begin": at(begin),
        "end": None if end is None else at(end),
        "happenings": told,
    }


def edge(source, target, kind):
    return {"source": source, "target": target, "kind": kind}


def test_a_fork_opens_lanes_and_a_batch_joins_them():
    rows = rows_of(
        {
            "nodes": [
                node("topic", 0, kind="event", state="forked"),
                node("a", 1, (1, "sent"), (2, "completed")),
                node("b", 1, (1, "sent"), (3, "completed")),
                node("batch", 4, (4, "batched"), kind="task", state="waiting", end=None),
            ],
            "edges": [
                edge("topic", "a", "fork"),
                edge("topic", "b", "fork"),
                edge("a", "batch", "join"),
                edge("b", "batch", "join"),
            ],
            "parts": [],
        }
    )
    assert [(row["node"]["id"], row["dot"][0]) for row in rows] == [
        ("topic", 0),
        ("a", 1),
        ("b", 2),
        ("a", 1),
        ("b", 2),
        ("batch", 1),
        ("batch", 1),
    ]
    assert [fork[:2] for fork in rows[0]["forks"]] == [(0, 1), (0, 2)]
    assert [join[:2] for join in rows[5]["joins"]] == [(2, 1)]
    assert rows[-1]["is_now"]


def test_failures_and_operations_stay_in_the_lane_and_waiting_is_dashed():
    rows = rows_of(
        {
            "nodes": [
                node("m", 0, (0, "sent"), (1, "failed"), (120, "completed")),
                node("failure", 1, (1, "failed"), kind="failure", state="resolved"),
                node("operation", 100, (100, "requested"), (120, "succeeded"), kind="operation"),
            ],
            "edges": [
                edge("m", "failure", "failed"),
                edge("failure", "operation", "recovery"),
                edge("operation", "m", "again"),
            ],
            "parts": [],
        }
    )
    assert {row["dot"][0] for row in rows} == {0}
    waits = next(row for row in rows if row["event"] == "requested")
    assert "dash" in waits["lanes"][0][2]


def test_a_gap_is_a_gap_and_a_long_wait_is_a_line_of_its_own():
    nodes = [node("m", 0, (0, "sent"), (700, "abandoned"), (800, "completed"))]
    known = rows_of({"nodes": nodes, "edges": [], "parts": []})
    assert [row["is_gap"] for row in known] == [False, True, False, False]
    assert (known[1]["is_unknown"], known[1]["seconds"], known[1]["lanes"]) == (False, 700, [(0, "l2", "dash")])
    parts = [{"kind": "no record", "begin": at(710), "end": at(760), "node": None}]
    unknown = rows_of({"nodes": nodes, "edges": [], "parts": parts})
    gap = unknown[3]
    assert (gap["is_unknown"], gap["seconds"], gap["lanes"]) == (True, 50.0, [])
