# SPDX-License-Identifier: MIT
"""Failed messages over HTTP: what the command line shows of them, page by page, and nothing of other queues."""

import csv
import json
from io import StringIO

import pytest

from redrive.access import Role
from redrive.recovery import views
from redrive.server.api.export import csv_line


async def test_failed_messages_are_listed_as_the_command_line_lists_them(client, fail):
    failed = await fail()
    answer = await client.get("/failures", params={"q": "queue:orders"})
    assert answer.json() == views.records_view(failed)
    assert (await client.get("/failures/count")).json() == {"count": 3}


@pytest.mark.parametrize("order", ["newest", "last-failed"])
async def test_pages_follow_one_another_by_the_link_of_the_page_before(client, fail, order):
    failed = await fail(bodies=[str(number) for number in range(5)])
    seen, address = [], f"/failures?order={order}&limit=2"
    while address:
        answer = await client.get(address.removeprefix("/api/v1"))
        seen += [each["number"] for each in answer.json()]
        address = answer.links.get("next", {}).get("url")
    assert seen == [each.number for each in reversed(failed)]


async def test_a_cursor_of_another_list_is_refused(client, fail):
    await fail()
    cursor = (await client.get("/failures", params={"limit": 1})).links["next"]["url"].partition("cursor=")[2]
    for path, more in (("/failures", {"q": "queue:orders"}), ("/operations", {}), ("/groups", {"order": "id"})):
        answer = await client.get(path, params={"cursor": cursor, **more})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid-cursor")
    for wrong in ("x", "%00", "AAAA", "bnVsbA", cursor + "A"):
        assert (await client.get("/failures", params={"cursor": wrong})).json()["code"] == "invalid-cursor"


async def test_a_place_is_told_by_time_in_the_order_of_failures(client, fail):
    *_, before, last = await fail()
    asked = {"order": "last-failed", "after": str(last.place), "limit": 1}
    assert (await client.get("/failures", params=asked)).json() == views.records_view([before])
    refused = await client.get("/failures", params={"order": "last-failed", "after": "3"})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid-setting")


async def test_messages_are_found_by_source_host_reason_and_header(client, fail):
    failed = await fail()
    reason = "MaxImmediateRetries"
    for q in ("source:error", "queue:orders header.x:*", "reason:none", f"reason:{reason} source:error"):
        listed = (await client.get("/failures", params={"q": q})).json()
        expected = views.records_view(failed) if "header" not in q and "none" not in q else []
        assert listed == expected, q
    refused = await client.get("/failures", params={"q": "header.x:1"})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid-filter")
    refused = await client.get("/failures", params={"q": "route:nowhere"})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid-setting")


async def test_a_filter_that_cannot_be_understood_says_where(client):
    answer = await client.get("/failures", params={"q": "qeue:orders"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-filter")
    assert "did you mean 'queue'" in answer.json()["detail"]


async def test_one_failed_message_has_everything(client, desk, fail):
    (first, *_) = await fail()
    answer = await client.get(f"/failures/{first.id}")
    assert answer.json() == views.detail_view(await desk.recovery.show(first.id))
    assert (await client.get(f"/failures/{first.id[:10]}")).json() == answer.json()
    assert (await client.get(f"/failures/{'0' * 32}")).json()["code"] == "failure-not-found"


async def test_a_body_is_downloaded_and_never_shown_by_a_browser(client, fail):
    (first, *_) = await fail(bodies=["<script>alert(1)</script>"])
    answer = await client.get(f"/failures/{first.id}/body")
    assert b"<script>" in answer.content
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment;")


async def test_an_export_has_a_line_for_each_with_everything(client, desk, fail):
    failed = await fail()
    lines = (await client.get("/failures/export")).text.splitlines()
    assert [json.loads(line) for line in lines] == [
        views.detail_view(await desk.recovery.show(each.id)) for each in failed
    ]


async def test_a_table_quotes_what_a_spreadsheet_would_calculate(client, fail):
    await fail(bodies=["one"])
    answer = await client.get("/failures/export", params={"format": "csv"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    (row,) = csv.DictReader(StringIO(answer.text))
    assert row["queue"] == "orders"
    for formula in ("=1+1", "+1", "-1", "@sum", "\t=1"):
        assert csv_line([formula]).lstrip('"').startswith("'")
    assert csv_line([None, -1, "a"]) == ",-1,a\r\n"


async def test_an_edited_copy_is_requested_once_for_a_key(client, fail):
    (first, *_) = await fail()
    asked = {"transform": {"replace": [["one", "1"]]}, "reason": "a number"}
    made = [
        (await client.post(f"/failures/{first.id}/edit", json=asked, headers={"Idempotency-Key": "k"})).json()
        for _ in range(2)
    ]
    assert made[0]["number"] == made[1]["number"]
    assert (made[0]["kind"], made[0]["reason"], made[0]["actor"]) == ("recover", "a number", "ann (10.0.0.7)")


async def test_whoever_is_limited_to_queues_sees_no_failure_of_another(as_someone, fail):
    (other, *_) = await fail("billing")
    (own, *_) = await fail("orders")
    for limits in (("orders",), ("ord*",)):
        limited = as_someone(Role.OPERATOR, queues=limits)
        assert {each["queue"] for each in (await limited.get("/failures?q=status:any")).json()} == {"orders"}
        assert (await limited.get("/failures", params={"q": "queue:billing"})).json() == []
        assert (await limited.get("/failures/count", params={"q": f"id:{other.id}"})).json() == {"count": 0}
        assert "billing" not in (await limited.get("/failures/export")).text
        assert (await limited.get(f"/failures/{own.id}")).status_code == 200
        for answer in (
            await limited.get(f"/failures/{other.id}"),
            await limited.get(f"/failures/{other.id}/body"),
            await limited.post(f"/failures/{other.id}/edit", json={"transform": {}}),
        ):
            assert (answer.status_code, answer.json()["code"]) == (404, "failure-not-found")


@pytest.mark.parametrize("given", ["x" * 32, "0", "%00", "a" * 33])
async def test_what_is_no_id_is_refused(client, given):
    assert (await client.get(f"/failures/{given}")).status_code in (404, 422)
