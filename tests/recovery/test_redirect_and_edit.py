# SPDX-License-Identifier: MIT
"""Sending messages elsewhere, and changing them on their way."""

from dataclasses import replace

import pytest

from redrive.broker import Message
from redrive.errors import (
    FailureNotFound,
    InvalidSetting,
    OperationConflict,
    QueueNotFound,
    RedirectRefused,
    RedriveError,
    TransformFailed,
)
from redrive.recovery import Outcome, Status, Transform, TransformSettings
from tests.recovery.sites import Crash

ALLOWED = {"transforms": TransformSettings(allow=f"{__name__}:*")}

# --- redirects


async def test_a_redirect_sends_failed_messages_elsewhere(process):
    """Behaviour 61: those of one queue, until it is removed."""
    await process.fail(2)
    await process.recovery.redirect("orders", "billing", actor="ann")
    assert await process.recovery.redirects() == {"orders": "billing"}
    await process.recovered()
    assert len(await process.arrived("billing")) == 2
    await process.recovery.redirect("orders", None)
    await process.fail(1)
    await process.recovered()
    assert (len(await process.arrived("billing")), len(await process.arrived())) == (0, 1)


@pytest.mark.parametrize(
    ("queue", "to", "told"),
    [
        ("orders", "orders", "they go there anyway"),
        ("orders", "third", "they go to 'billing' already"),
        ("third", "orders", "those of 'orders' go to 'billing'; redirect to 'billing' instead"),
        ("billing", "third", "those of 'orders' go to 'billing'; change these first"),
        ("billing", "orders", "go to"),
        ("third", None, "there is no redirect to remove"),
    ],
)
async def test_duplicate_and_chained_redirects_are_refused_with_the_reason(process, queue, to, told):
    """Behaviour 61: each refusal says what stands in the way, and is in the trail."""
    await process.broker.declare("third")
    await process.recovery.redirect("orders", "billing")
    with pytest.raises(RedirectRefused, match=told):
        await process.recovery.redirect(queue, to, actor="bob")
    assert await process.recovery.redirects() == {"orders": "billing"}
    refusal = (await process.recovery.trail())[0]
    assert (refusal.actor, refusal.action) == ("bob", "redirect")
    assert refusal.outcome.startswith("refused")


async def test_a_redirect_to_a_queue_that_is_not_there_is_refused(process):
    """Behaviour 61: messages would be ejected, one by one."""
    with pytest.raises(QueueNotFound):
        await process.recovery.redirect("orders", "nowhere", actor="bob")
    assert await process.recovery.redirects() == {}
    assert (await process.recovery.trail())[0].actor == "bob"


async def test_a_redirect_counts_for_what_is_not_staged_yet(process):
    """Behaviour 61: a change in the middle applies to batches that come after it."""
    await process.fail(1_200)
    await process.recovery.recover("status:unresolved")
    process.at("ledger.staged", lambda *_: process.recovery.redirect("orders", "billing"), when="after")
    await process.work()
    assert (len(await process.arrived()), len(await process.arrived("billing"))) == (1_000, 200)


async def test_the_redirect_of_an_operation_goes_before_all_others(process):
    """Behaviour 61: only this recovery, only these messages."""
    await process.broker.declare("third")
    await process.fail(2)
    await process.recovery.redirect("orders", "billing")
    await process.recovered(redirect="third")
    assert len(await process.arrived("third")) == 2


# --- edits


async def test_of_two_editors_one_wins_and_the_other_is_told_who(site):
    """Behaviour 62: at any moment: before it is claimed, while it is staged, after it was sent."""
    ann, bob = await site.open(), await site.open()
    (id_,) = await ann.fail(1)
    won = await ann.recovery.edit(id_, Transform(body=b"ann's"), actor="ann")
    losses = []

    async def lose(*_values):
        with pytest.raises(OperationConflict) as caught:
            await bob.recovery.edit(id_, Transform(body=b"bob's"), actor="bob")
        losses.append((caught.value.operation, "ann" in str(caught.value)))

    await lose()
    ann.at("ledger.to_stage", lose)
    ann.at("ledger.staged", lose, when="after")
    await ann.work()
    await lose()
    assert losses == [(won.number, True)] * 4
    assert await ann.bodies() == [b"ann's"]
    assert [each.actor for each in await ann.recovery.trail() if each.outcome.startswith("refused")] == ["bob"] * 4


async def test_an_edited_copy_has_an_id_of_its_own_and_they_know_each_other(process):
    """Behaviour 63: it keeps its correlation; both records are linked both ways, also before it fails."""
    (id_,) = await process.fail(1, correlation_id="conversation-1")
    operation = await process.recovery.edit(id_, Transform(body=b"mended", set_headers={"tenant": "b"}), actor="ann")
    await process.work()
    (sent,) = await process.arrived()
    assert (sent.body, sent.message.correlation_id, sent.headers["tenant"]) == (b"mended", "conversation-1", "b")
    assert sent.id != "message-1"
    original = await process.summary(id_)
    assert (original.edited_as, original.status) == (sent.id, Status.RETRY_ISSUED)
    process.clock.advance(1)
    await process.fail_again(sent)
    (copy,) = await process.recovery.failed()
    original = await process.recovery.show(id_)
    assert copy.id != id_
    assert (copy.edit_of, original.summary.edited_as) == (id_, copy.id)
    assert original.summary.status is Status.ARCHIVED  # it lives on in its copy, and can be restored
    assert [(each.operation, each.outcome) for each in original.parts] == [(operation.number, Outcome.FAILED_AGAIN)]


async def test_an_edited_copy_that_succeeds_resolves_the_original(process):
    """Behaviour 63: word of its success goes to the record it was made of."""
    (id_,) = await process.fail(1)
    await process.recovery.edit(id_, Transform(body=b"mended"))
    await process.work()
    await process.succeed(*await process.arrived())
    assert (await process.summary(id_)).status is Status.RESOLVED
    assert await process.recovery.count("status:any") == 1


async def test_plain_edit_plain_edit(process):
    """Behaviour 63: in any order, as often as one likes (their disabled case)."""
    (id_,) = await process.fail(1)
    chain = [id_]
    for round_, edits in enumerate([False, True, False, True, True, False]):
        process.clock.advance(1)
        if edits:
            await process.recovery.edit(chain[-1], Transform(body=b"edit %d" % round_))
            await process.work()
        else:
            await process.recovered(chain[-1:])
        (sent,) = await process.arrived()
        process.clock.advance(1)
        await process.fail_again(sent)
        (left,) = await process.recovery.failed()
        if left.id != chain[-1]:
            assert left.edit_of == chain[-1]
            chain.append(left.id)
    assert len(chain) == 4
    assert [(await process.summary(each)).attempts for each in chain] == [2, 2, 1, 2]
    assert [(await process.summary(each)).edited_as for each in chain] == [*chain[1:], None]
    await process.recovered()
    await process.succeed(*await process.arrived())
    assert await process.recovery.count("status:resolved") == 1
    assert await process.recovery.count("status:archived") == 3


@pytest.mark.parametrize(
    "name", ["redrive-recovery-tag", "Redrive-Recovery-Tag", "NServiceBus.MessageId", "nservicebus.MESSAGEID"]
)
async def test_headers_that_say_who_a_message_is_are_locked(process, name):
    """Behaviour 64: changed, removed or in another case: refused."""
    (id_,) = await process.fail(1, headers={"NServiceBus.MessageId": "1"})
    for change in ({"set_headers": {name: "2"}}, {"remove_headers": (name,)}):
        with pytest.raises(InvalidSetting):
            await process.recovery.edit(id_, Transform(**change))
    assert await process.recovery.operations() == []


def change_the_id(message):
    return replace(message, id="another")


def change_a_locked_header(message):
    return replace(message, headers={**message.headers, "REDRIVE-RECOVERY-TAG": "another"})


def raise_nonsense(message):
    raise ValueError(f"cannot mend \0 {message.id}")


def mend(message):
    return replace(message, body=message.body.upper())


@pytest.mark.parametrize("function", ["change_the_id", "change_a_locked_header", "raise_nonsense", "not_there"])
async def test_what_a_function_may_not_do_is_refused_for_that_message(site, function):
    """Behaviour 64: in an edit before anything is stored; in bulk as the message's own reason."""
    process = await site.open(settings=ALLOWED)
    ids = await process.fail(2)
    transform = Transform(function=f"{__name__}:{function}")
    with pytest.raises(TransformFailed):
        await process.recovery.edit(ids[0], transform)
    assert await process.recovery.operations() == []
    operation = await process.recovered(transform=transform)
    assert (operation.state.word, operation.progress.failed) == ("completed", 2)
    assert all(function in each.reason for each in await process.recovery.outcomes(operation.number))
    assert {(await process.summary(id_)).status for id_ in ids} == {Status.UNRESOLVED}
    assert (await process.recovered()).progress.forwarded == 2


@pytest.mark.parametrize(
    ("verb", "when"), [("ledger.staged", "before"), ("ledger.staged", "after"), ("ledger.finish", "before")]
)
async def test_a_crash_in_the_middle_of_an_edit_loses_and_doubles_nothing(site, verb, when):
    """Behaviour 65: the edited copy arrives once, under the same id however often it was staged."""
    process = await site.open()
    (id_,) = await process.fail(1)
    await process.recovery.edit(id_, Transform(body=b"mended"))
    process.dies(verb, when=when)
    with pytest.raises(Crash):
        await process.work()
    await site.crash()
    process = await site.open()
    assert (await process.summary(id_)).status in {Status.UNRESOLVED, Status.RETRY_ISSUED}
    site.clock.advance(60)
    await process.work()
    assert await process.bodies() == [b"mended"]
    assert (await process.summary(id_)).status is Status.RETRY_ISSUED


async def test_what_is_not_unresolved_cannot_be_edited(process):
    """Behaviour 62: it is refused, never silently ignored."""
    (id_,) = await process.fail(1)
    await process.recovery.archive("status:unresolved")
    await process.work()
    with pytest.raises(RedriveError):
        await process.recovery.edit(id_, Transform(body=b"x"))
    with pytest.raises(FailureNotFound):
        await process.recovery.edit("f" * 32, Transform(body=b"x"))


# --- bulk transforms


async def test_a_preview_shows_what_the_bulk_transform_does(process):
    """L5.11: line by line for a few, with the reason for those that cannot be changed; then the same in bulk."""
    for body in (b'{"price": 5}', b"no json", b'{"price": 7}'):
        await process.fail(1, body=body)
    transform = Transform(set_json={"/currency": "EUR"}, set_headers={"mended": True})
    previews = await process.recovery.preview("", transform)
    assert [bool(each.problem) for each in previews] == [False, True, False]
    assert any("EUR" in line for line in previews[0].changes)
    assert await process.recovery.operations() == []
    operation = await process.recovered(transform=transform)
    assert (operation.progress.forwarded, operation.progress.failed) == (2, 1)
    (part,) = await process.recovery.outcomes(operation.number, [Outcome.FAILED])
    assert previews[1].problem in part.reason
    sent = await process.arrived()
    assert sorted(each.body for each in sent) == [b'{"price":5,"currency":"EUR"}', b'{"price":7,"currency":"EUR"}']
    assert {(each.id, each.headers["mended"]) for each in sent} == {("message-1", True), ("message-3", True)}


async def test_a_transform_by_a_function_survives_a_restart(site):
    """L5.11: it is stored by its name with the request."""
    process = await site.open(settings=ALLOWED)
    await process.fail(2)
    await process.recovery.recover("status:unresolved", transform=Transform(function=f"{__name__}:mend"))
    await site.crash()
    process = await site.open(settings=ALLOWED)
    await process.work()
    assert await process.bodies() == [b"ORDER 1", b"ORDER 2"]


async def test_a_transform_does_not_change_the_failed_message_itself(process):
    """L5.11: what failed stays as it was; only the copy is changed."""
    (id_,) = await process.fail(1)
    await process.recovered(transform=Transform(body=b"changed"))
    assert (await process.recovery.show(id_)).message.body == b"order 1"
    assert isinstance((await process.recovery.show(id_)).message, Message)
