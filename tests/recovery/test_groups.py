# SPDX-License-Identifier: MIT
"""Groups of failures, where a store is needed; what makes a group is tested in ``test_fingerprint.py``."""

import pytest

from redrive.errors import FailureNotFound, InvalidSetting
from redrive.recovery import Status


def titled(groups):
    return {each.title: each.count for each in groups}


async def test_similar_failures_share_a_group(process):
    """Behaviour 11: another message text does not split it, another exception does."""
    for said in ("no stock of 1", "no stock of 2"):
        await process.fail(1, said=said)
    await process.fail(1, kind="shop.errors.NoCredit")
    groups = await process.recovery.groups()
    assert sorted(each.count for each in groups) == [1, 2]
    largest = max(groups, key=lambda group: group.count)
    assert await process.recovery.count(f"group:{largest.id}") == 2
    assert largest.first_failed_at < largest.last_failed_at


async def test_a_message_that_fails_otherwise_leaves_its_old_groups(site):
    """Behaviour 12: of every classifier."""
    process = await site.open(classifiers={"said": lambda failure, _message: failure.exception_message})
    await process.fail(1, id="m", kind="A", said="a")
    (before,) = await process.recovery.groups()
    await process.fail(1, id="m", kind="B", said="b")
    (after,) = await process.recovery.groups()
    assert (before.id != after.id, after.count) == (True, 1)
    assert titled(await process.recovery.groups(by="said")) == {"b": 1}
    assert await process.recovery.count(f"group:{before.id}") == 0


async def test_a_group_counts_what_is_unresolved_and_is_gone_at_zero(process):
    """Behaviour 14: unless one asks for others."""
    ids = await process.fail(3)
    (group,) = await process.recovery.groups()
    await process.recovery.archive(ids[:1])
    await process.work()
    assert [each.count for each in await process.recovery.groups()] == [2]
    await process.recovered(f"group:{group.id}")
    assert await process.recovery.groups() == []
    assert {each.count for each in await process.recovery.groups("status:any")} == {3}
    assert [each.count for each in await process.recovery.groups("status:archived")] == [1]
    await process.recovery.restore(ids[:1])
    await process.work()
    assert [(each.id, each.count) for each in await process.recovery.groups()] == [(group.id, 1)]


@pytest.mark.parametrize("by", ["exception", "queue", "type", "said"])
async def test_more_groups_than_fit_on_a_page_can_be_reached(site, by):
    """Behaviour 16: 250 groups of any kind, page by page, each once."""
    process = await site.open(classifiers={"said": lambda failure, _message: failure.exception_message})
    made = [
        process.site.failed_message(queue=f"queue-{n}", kind=f"Error{n}", said=f"said {n}", subject=f"type-{n}")
        for n in range(250)
    ]
    await process.broker.send_many("error", made)
    await process.recovery.ingest()
    found, after = [], None
    while page := await process.recovery.groups(by=by, after=after, limit=60):
        found += page
        after = page[-1].id
    assert len(found) == len({each.id for each in found}) == 250
    assert {each.count for each in found} == {1}


async def test_a_group_can_be_recovered_and_no_other_is_touched(process):
    """Behaviour 14: what the group shows is what is sent."""
    await process.fail(3, kind="A")
    await process.fail(2, kind="B")
    group = min(await process.recovery.groups(), key=lambda each: each.count)
    operation = await process.recovered(f"group:{group.id}")
    assert operation.progress.forwarded == 2
    assert await process.recovery.count("") == 3


async def test_groups_by_queue_and_type_are_those_of_the_messages(process):
    """Behaviour 14: their ids are the names."""
    await process.fail(2)
    await process.fail(1, queue="billing", subject="invoice.sent")
    assert titled(await process.recovery.groups(by="queue")) == {"orders": 2, "billing": 1}
    assert titled(await process.recovery.groups(by="type")) == {"order.placed": 2, "invoice.sent": 1}
    assert titled(await process.recovery.groups("queue:billing", by="type")) == {"invoice.sent": 1}


@pytest.mark.parametrize("by", ["exception", "queue", "type", "tenant"])
async def test_the_newest_message_of_each_group_is_found_at_once(site, by):
    process = await site.open(classifiers={"tenant": lambda _failure, message: message.headers.get("tenant")})
    for number in range(3):
        tenant = {"tenant": "a" if number else "b"}
        await process.fail(1, queue=f"q{number % 2}", kind=f"E{number % 2}", subject=f"s{number % 2}", headers=tenant)
    recovery = process.recovery
    ids = [each.id for each in await recovery.groups(by=by)]
    found = await recovery.newest_in_groups([*ids, "unknown"], by=by)
    field = {"queue": "queue", "type": "type"}.get(by, "group")
    assert len(ids) == 2
    assert found == {each: (await recovery.failed(f"{field}:{each}", order="newest"))[0] for each in ids}
    assert await recovery.newest_in_groups(ids, "queue:nowhere" if by != "queue" else "type:none", by=by) == {}
    assert await recovery.newest_in_groups([], by=by) == {}
    assert await recovery.newest_in_groups([*map(str, range(250)), *ids], by=by) == found


async def test_classifiers_of_the_program(site):
    """L5.1: by whatever is in the failure or the message; None is no group, and a group can be acted on."""
    process = await site.open(classifiers={"tenant": lambda _failure, message: message.headers.get("tenant")})
    await process.fail(2, headers={"tenant": "a"})
    await process.fail(1, headers={"tenant": "b"})
    await process.fail(1, headers={"tenant": None})
    groups = await process.recovery.groups(by="tenant")
    assert titled(groups) == {"a": 2, "b": 1}
    chosen = next(each for each in groups if each.title == "a")
    exception = (await process.recovery.groups())[0]
    assert await process.recovery.count(f"group:{chosen.id},{exception.id}") == 4
    assert (await process.recovered(f"group:{chosen.id}")).progress.forwarded == 2
    assert {each.status for each in await process.recovery.failed(f"status:any group:{chosen.id}")} == {
        Status.RETRY_ISSUED
    }


async def test_a_classifier_that_fails_costs_no_failure(site):
    """L5.1: it is the program's own; the failure is recorded, and the group says so."""

    def broken(_failure, _message):
        raise KeyError("tenant")

    process = await site.open(classifiers={"broken": broken, "number": lambda *_: 5, "odd": lambda *_: "a\0\ud800"})
    await process.fail(1)
    assert await process.recovery.count("") == 1
    assert titled(await process.recovery.groups(by="broken")) == {"broken failed: KeyError": 1}
    assert len(await process.recovery.groups(by="odd")) == 1


def test_a_classifier_cannot_take_a_name_that_is_taken():
    """L5.1: exception, queue and type are ours."""
    from redrive.recovery import Recovery

    with pytest.raises(InvalidSetting):
        Recovery(FakeBroker(), None, classifiers={"queue": lambda *_: None})


class FakeBroker:
    """As much of a broker as a constructor needs."""

    engine = None
    clock = None


async def test_a_failed_message_is_found_by_the_beginning_of_its_id_that_no_other_has(process):
    await process.fail(2)
    first, second = [each.number for each in await process.recovery.failed("status:any")]
    for number, id_ in ((first, "abcd1" + "0" * 27), (second, "abcd2" + "f" * 27)):
        await process.sql("UPDATE @.failure_contents SET id = ? WHERE number = ?", id_, number)
    assert (await process.recovery.show("abcd1")).summary.number == first
    assert (await process.recovery.show("abcd2" + "f" * 27)).summary.number == second
    for beginning in ("abcd", "abc", "", "abce", "abcd1g", "abcd2" + "f" * 28):
        with pytest.raises(FailureNotFound):
            await process.recovery.show(beginning)
