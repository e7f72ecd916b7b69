# SPDX-License-Identifier: MIT
"""Who takes care of a group, until when it is snoozed, and how many of its messages failed again."""

from datetime import datetime, timedelta

import pytest

from redrive.clock import utc
from redrive.errors import GroupNotFound, InvalidSetting, UnknownSetting
from redrive.recovery.group_state import decision_text, is_snoozed, share_of

THEN = utc(1_000_000_000)


@pytest.mark.parametrize(
    ("until", "above", "unresolved", "expected"),
    [
        (None, None, 5, False),
        (100.0, None, 5, False),
        (100.1, None, 5, True),
        (100.1, 5, 5, True),
        (100.1, 4, 5, False),
        (100.1, 0, 0, True),
        (99.0, 9, 5, False),
    ],
)
def test_a_snooze_ends_with_its_time_or_with_the_number_of_failures(until, above, unresolved, expected):
    assert is_snoozed(until=until, above=above, unresolved=unresolved, now=100.0) is expected


def test_a_share_needs_something_that_was_heard():
    assert share_of(0, 0) is None
    assert share_of(0, 3) == 0.0
    assert share_of(1, 2) == 0.3333
    assert share_of(3, 0) == 1.0


def test_a_decision_has_a_text():
    assert decision_text({"owner": "ann"}) == "owner ann"
    assert decision_text({"owner": "", "snoozed_until": None}) == "no owner; awake"
    snoozed = {"snoozed_until": THEN, "wake_above": 1_500}
    assert decision_text(snoozed) == "snoozed until 2001-09-09T01:46:40+00:00, or until more than 1,500 are unresolved"


# --- decisions


async def only_group(process, **more):
    (group,) = await process.recovery.groups(**more)
    return group


async def test_a_group_has_an_owner_and_the_trail_has_who_said_so(process):
    await process.fail(2)
    group = await only_group(process)
    state = await process.recovery.set_group_state(group.id, owner="ann", actor="bob", reason="she wrote it")
    assert state.owner == "ann"
    assert (await only_group(process)).state == await process.recovery.group_state(group.id) == state
    (entry,) = await process.recovery.trail(subject=f"group:{group.id}")
    assert (entry.actor, entry.action, entry.reason, entry.outcome) == (
        "bob",
        "group-state",
        "she wrote it",
        "owner ann",
    )


async def test_a_snoozed_group_is_counted_and_listed_and_wakes_by_itself(process):
    await process.fail(2)
    group = await only_group(process)
    assert not group.is_snoozed
    state = await process.recovery.set_group_state(group.id, snoozed_until=100, owner="ann")
    assert state.is_snoozed
    listed = await only_group(process)
    assert (listed.count, listed.is_snoozed) == (2, True)
    assert await process.recovery.count() == 2
    process.clock.advance(101)
    assert not (await only_group(process)).is_snoozed
    assert (await only_group(process)).state.owner == "ann", "what is left out stays as it is"


async def test_a_snooze_is_ended_by_a_person(process):
    await process.fail(1)
    group = await only_group(process)
    await process.recovery.set_group_state(group.id, snoozed_until=timedelta(hours=1), wake_above=5)
    awake = await process.recovery.set_group_state(group.id, snoozed_until=None)
    assert (awake.is_snoozed, awake.snoozed_until, awake.wake_above) == (False, None, None)


@pytest.mark.parametrize("by", ["exception", "said"])
async def test_a_group_that_grows_too_far_wakes_before_its_time(site, by):
    """The unresolved messages of the whole group count, whatever a list shows of it."""
    process = await site.open(classifiers={"said": lambda *_: "the same"})
    await process.fail(2)
    group = await only_group(process, by=by)
    await process.recovery.set_group_state(group.id, snoozed_until=1_000, wake_above=3)
    await process.fail(1, queue="billing")
    assert (await only_group(process, by=by)).is_snoozed
    await process.fail(1)
    (narrow,) = await process.recovery.groups("queue:billing", by=by)
    assert (narrow.count, narrow.is_snoozed) == (1, False)


async def test_groups_by_queue_and_type_have_no_state(process):
    await process.fail(1)
    for by in ("queue", "type"):
        group = await only_group(process, by=by)
        assert (group.state, group.is_snoozed) == (None, False)
    with pytest.raises(GroupNotFound):
        await process.recovery.set_group_state("orders", owner="ann")
    with pytest.raises(GroupNotFound):
        await process.recovery.group_state("orders")
    (entry,) = await process.recovery.trail(subject="group:orders")
    assert entry.outcome.startswith("refused: no group of failed messages has the id 'orders'")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({}, "must have an owner or snoozed_until"),
        ({"reason": "x"}, "must have an owner or snoozed_until"),
        ({"owner": "a\0"}, "without NUL"),
        ({"owner": "x" * 1_025}, "at most 1,024 characters"),
        ({"snoozed_until": -1}, "snoozed_until"),
        ({"snoozed_until": datetime(2031, 1, 1)}, "with a zone"),  # noqa: DTZ001 - that is the point
        ({"owner": "", "wake_above": 3}, "must come with snoozed_until"),
        ({"snoozed_until": None, "wake_above": 3}, "must come with snoozed_until"),
        ({"snoozed_until": 60, "wake_above": -1}, "whole number"),
        ({"snoozed_until": 60, "wake_above": True}, "whole number"),
    ],
)
async def test_what_cannot_be_decided_is_refused(process, change, error):
    await process.fail(1)
    group = await only_group(process)
    with pytest.raises(InvalidSetting, match=error):
        await process.recovery.set_group_state(group.id, **change)
    assert (await only_group(process)).state == group.state


async def test_a_typing_error_is_not_left_out(process):
    with pytest.raises(UnknownSetting, match="owner"):
        await process.recovery.set_group_state("x", ownr="ann")


# --- what became of them


def heard(state):
    return state.succeeded, state.failed_again, state.failed_again_share


async def test_a_group_knows_the_share_that_failed_again(process):
    await process.fail(3)
    first = await only_group(process)
    assert heard(first.state) == (0, 0, None)
    await process.recovered()
    one, two, three = await process.arrived()
    await process.succeed(one)
    await process.fail_again(two)
    await process.fail_again(three, kind="shop.errors.NoCredit")
    assert heard(await process.recovery.group_state(first.id)) == (1, 2, 0.6667), "also of one that is elsewhere now"
    other = next(each for each in await process.recovery.groups() if each.id != first.id)
    assert heard(other.state) == (0, 0, None)
    assert first.state.first_seen_at == (await process.recovery.group_state(first.id)).first_seen_at


async def test_what_is_heard_twice_counts_once(process):
    await process.fail(2)
    group = await only_group(process)
    await process.recovered()
    one, two = await process.arrived()
    for _ in range(2):
        await process.succeed(one)
    again = process.site.failed_message(queue="orders", body=two.body, id=two.id, headers=dict(two.headers))
    for _ in range(2):
        await process.broker.send("error", again)
        await process.recovery.ingest()
    assert heard(await process.recovery.group_state(group.id)) == (1, 1, 0.5)


async def test_a_copy_that_fails_without_its_tag_has_failed_again(process):
    await process.fail(1, id="m")
    group = await only_group(process)
    await process.recovered()
    await process.arrived()
    await process.fail(1, id="m")
    assert heard(await process.recovery.group_state(group.id)) == (0, 1, 1.0)


async def test_groups_of_a_programs_own_know_their_share_too(site):
    process = await site.open(classifiers={"said": lambda *_: "the same"})
    await process.fail(2)
    await process.recovered()
    one, two = await process.arrived()
    await process.succeed(one)
    await process.fail_again(two)
    assert heard((await only_group(process, by="said")).state) == (1, 1, 0.5)
