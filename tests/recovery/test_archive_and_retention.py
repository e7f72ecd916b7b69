# SPDX-License-Identifier: MIT
"""Archive, restore, retention, and the audit trail."""

import pytest

from redrive.broker import Message
from redrive.errors import NoteNotFound, OperationConflict, RedriveError
from redrive.recovery import Outcome, Status, Transform
from tests.recovery.sites import Crash


@pytest.mark.large
async def test_archiving_many_goes_on_after_a_kill_at_the_right_batch(site):
    """Behaviour 66: nothing twice, nothing left out, and it is still the same person's operation."""
    process = await site.open()
    await process.fail(3_500)
    operation = await process.recovery.archive("status:unresolved", actor="ann", reason="test data")
    process.dies("ledger.claim", when="after", nth=3)
    with pytest.raises(Crash):
        await process.work()
    await site.crash()
    process = await site.open()
    half = await process.recovery.operation(operation.number)
    assert half.progress.forwarded == await process.recovery.count("status:archived") == 2_000
    site.clock.advance(60)
    await process.work()
    found = await process.recovery.operation(operation.number)
    assert (found.actor, found.reason, found.state.word) == ("ann", "test data", "completed")
    assert (found.progress.forwarded, found.batches) == (3_500, 4)
    assert await process.recovery.count("status:archived") == 3_500


async def test_archiving_leaves_newcomers_alone(process):
    """Behaviour 66: what fails while it goes on was not meant."""
    await process.fail(1_100)
    operation = await process.recovery.archive("status:unresolved")
    process.at("ledger.claim", lambda *_: process.fail(5), when="after", nth=2)
    await process.work()
    assert (await process.recovery.operation(operation.number)).progress.forwarded == 1_100
    assert await process.recovery.count("") == 5


@pytest.mark.large
async def test_a_cancelled_archive_leaves_the_rest(process):
    """Behaviour 43, 66: an archive can be cancelled too; its figures say how far it was."""
    await process.fail(2_500)
    operation = await process.recovery.archive("status:unresolved")
    from redrive.recovery.states import OperationEvent

    ledger = process.raw_ledger
    process.at("ledger.claim", lambda *_: ledger.change(operation.number, OperationEvent.CANCEL), when="after", nth=2)
    await process.work()
    found = await process.recovery.operation(operation.number)
    assert (found.state.word, found.progress.forwarded, found.progress.cancelled) == ("cancelled", 1_000, 1_500)
    assert await process.recovery.count("") == 1_500


async def test_restore_gives_back_exactly_what_was_archived(process):
    """Behaviour 67: the same messages, unresolved, with no expiry; they can be recovered."""
    ids = await process.fail(3)
    others = await process.fail(2, queue="billing")
    await process.recovery.archive(others)
    await process.work()
    archiving = await process.recovery.archive(ids)
    await process.work()
    before = await process.recovery.show(ids[0])
    process.clock.advance(1_000)
    restoring = await process.recovery.restore(f"status:archived operation:{archiving.number}")
    await process.work()
    assert (await process.recovery.operation(restoring.number)).progress.forwarded == 3
    assert {each.id for each in await process.recovery.failed()} == set(ids)
    after = await process.recovery.show(ids[0])
    assert (after.message, after.attempts) == (before.message, before.attempts)
    process.clock.advance(1_000_000)
    await process.recovery.sweep(1)
    assert await process.recovery.count("status:any") == 3
    assert (await process.recovered()).progress.forwarded == 3


async def test_an_archived_message_that_fails_again_is_unresolved(process):
    """Behaviour 56: somebody had sent it by other means."""
    (id_,) = await process.fail(1)
    await process.recovery.archive("status:unresolved")
    await process.work()
    process.clock.advance(5)
    await process.broker.send("error", process.site.failed_message(id="message-1", body=b"order 1"))
    await process.recovery.ingest()
    found = await process.summary(id_)
    assert (found.status, found.attempts) == (Status.UNRESOLVED, 2)


async def test_the_sweep_takes_only_what_is_settled_and_old(process):
    """Behaviour 68: never unresolved or outstanding; with everything that belongs to them."""
    unresolved = await process.fail(1)
    archived = await process.fail(1)
    await process.recovery.archive(archived)
    await process.work()
    outstanding = await process.fail(1, queue="billing")
    await process.recovered("queue:billing")
    resolved = await process.fail(1)
    await process.recovered(resolved)
    await process.succeed(*await process.arrived())
    process.clock.advance(1_000)
    fresh = await process.fail(1)
    await process.recovery.archive(fresh)
    await process.work()
    assert await process.recovery.sweep(500) > 0
    left = {each.id for each in await process.recovery.failed("status:any")}
    assert left == {*unresolved, *outstanding, *fresh}
    numbers = {each.number for each in await process.recovery.failed("status:any")}
    for table, column in (
        ("failure_contents", "number"),
        ("failure_attempts", "failure"),
        ("failure_groups", "failure"),
    ):
        rows = await process.sql(f"SELECT {column} FROM @.{table}")  # noqa: S608 - names of ours
        assert {row[0] for row in rows} <= numbers


async def test_a_shorter_retention_acts_with_the_next_sweep(process):
    """Behaviour 68: age is counted when it is asked for, not stored when something is settled."""
    await process.fail(3)
    await process.recovery.archive("status:unresolved")
    await process.work()
    process.clock.advance(100)
    await process.recovery.sweep(1_000)
    assert await process.recovery.count("status:any") == 3
    await process.recovery.sweep(50)
    assert await process.recovery.count("status:any") == 0
    assert await process.recovery.operations() == []


async def test_what_an_operation_sent_is_listed_after_its_messages_were_swept(process):
    """Behaviour 42, 68: its figures stay while it is there itself."""
    await process.fail(2)
    operation = await process.recovered()
    first, second = await process.arrived()
    await process.succeed(first)
    process.clock.advance(1_000)
    await process.recovery.sweep(10)
    found = await process.recovery.operation(operation.number)  # nothing was heard of the second: it stays
    assert (found.progress.total, found.progress.succeeded, found.progress.waiting) == (2, 1, 1)
    assert len(await process.recovery.outcomes(operation.number)) == 2
    await process.succeed(second)
    assert await process.outcome_words(operation.number) == {"succeeded": 2}


# --- the audit trail


async def test_every_change_says_who_what_when_why_and_with_what_result(process):
    """Behaviour 69: in the order in which they were made, the newest first."""
    ids = await process.fail(3)
    recovery = process.recovery
    operation = await recovery.recover(ids[:1], actor="ann", reason="try one", rate=5)
    await recovery.set_rate(operation.number, 10, actor="ben")
    await recovery.pause(operation.number, actor="cid", reason="wait")
    await recovery.resume(operation.number, actor="dan", reason="go on")
    await process.site.play(recovery.cancel(operation.number, actor="eve", reason="stop"))
    await recovery.acknowledge(operation.number, actor="fay")
    await recovery.redirect("orders", "billing", actor="gus")
    await recovery.edit(ids[1], Transform(body=b"x"), actor="hal")
    await recovery.archive(ids[2:], actor="ivy")
    trail = [(each.actor, each.action) for each in reversed(await recovery.trail())]
    assert trail == [
        ("ann", "recover"),
        ("ben", "set-rate"),
        ("cid", "pause"),
        ("dan", "resume"),
        ("eve", "cancel"),
        ("fay", "acknowledge"),
        ("gus", "redirect"),
        ("hal", "recover"),
        ("ivy", "archive"),
    ]
    first = (await recovery.trail())[-1]
    assert (first.reason, first.subject, first.outcome) == ("try one", f"operation:{operation.number}", "1 messages")
    of_it = await recovery.trail(subject=f"operation:{operation.number}", limit=2)
    assert [each.actor for each in of_it] == ["fay", "eve"]
    assert [each.actor for each in await recovery.trail(before=of_it[-1].number, limit=1)] == ["dan"]


async def test_housekeeping_is_in_the_trail_before_it_is_done(site):
    """Behaviour 69: whoever deletes is known, also if the process dies in the middle."""
    process = await site.open()
    ids = await process.fail(1)
    recovery = process.recovery
    note = await recovery.note(f"failure:{ids[0]}", "call her", actor="ann")
    await recovery.drop_note(note.number, actor="ben")
    await process.broker.send("error", Message(b"?", id="unreadable"))
    await recovery.ingest()
    assert await recovery.reimport(actor="cid") == (0, 1)
    assert await recovery.reimport(queue="orders", actor="dan") == (1, 0)
    await recovery.archive(ids, actor="eve")
    await process.work()
    site.clock.advance(100)
    process.dies("ledger.sweep", when="after")
    with pytest.raises(Crash):
        await recovery.sweep(10, actor="fay")
    await site.crash()
    recovery = (await site.open()).recovery
    assert await recovery.sweep(10, actor="gus") == 0
    assert await recovery.operations() == []
    told = [(each.actor, each.action, each.outcome) for each in reversed(await recovery.trail())]
    assert told == [
        ("ann", "note", f"note {note.number}"),
        ("ben", "drop-note", f"note {note.number} removed: call her"),
        ("cid", "reimport", "begun"),
        ("cid", "reimport", "0 read, 1 left"),
        ("dan", "reimport", "begun"),
        ("dan", "reimport", "1 read, 0 left"),
        ("eve", "archive", "1 messages"),
        ("fay", "sweep", "begun"),
        ("gus", "sweep", "begun"),
        ("gus", "sweep", "0 deleted"),
    ]


async def test_a_note_that_is_not_there_cannot_be_removed(process):
    """Behaviour 69: the answer says where notes are listed, and the trail who tried."""
    with pytest.raises(NoteNotFound, match="there is no note 4711"):
        await process.recovery.drop_note(4711, actor="ann")
    assert (await process.recovery.trail())[0].outcome.startswith("refused: there is no note 4711")


async def test_refusals_are_in_the_trail_too(process):
    """Behaviour 69: whoever is refused is written down, with the reason."""
    ids = await process.fail(2, body=b"no json")
    recovery = process.recovery
    await recovery.recover("status:unresolved", actor="ann")
    tries = [
        recovery.recover("status:unresolved", actor="bob"),
        recovery.recover("queue:orders", redirect="nowhere", actor="bob"),
        recovery.recover("nonsense:1", actor="bob"),
        recovery.archive("status:unresolved", actor="bob"),
        recovery.edit(ids[0], Transform(set_json={"/a": 1}), actor="bob"),
        recovery.edit("f" * 32, Transform(body=b""), actor="bob"),
        recovery.redirect("orders", "orders", actor="bob"),
        recovery.acknowledge(1, actor="bob"),
        recovery.pause(4711, actor="bob"),
    ]
    for each in tries:
        with pytest.raises(RedriveError):
            await each
    refused = [each for each in await recovery.trail() if each.actor == "bob"]
    assert len(refused) == len(tries)
    assert all(each.outcome.startswith("refused: ") for each in refused)
    assert len(await recovery.operations()) == 1


async def test_a_send_that_failed_is_not_told_as_a_success(process):
    """Behaviour 69: neither by the figures nor by the outcomes."""
    await process.broker.delete("orders")
    await process.fail(1)
    operation = await process.recovered(actor="ann")
    assert (operation.progress.forwarded, operation.progress.failed) == (0, 1)
    assert await process.recovery.outcomes(operation.number, [Outcome.FORWARDED]) == []


async def test_notes_know_who_wrote_them_and_stay(process):
    """Behaviour 69: about a group, a message, an operation; recovering does not remove them."""
    (id_,) = await process.fail(1)
    group = (await process.recovery.groups())[0].id
    for subject in (f"group:{group}", f"failure:{id_}", "operation:1"):
        note = await process.recovery.note(subject, "call the supplier", actor="ann")
        await process.recovery.note(subject, "done", actor="ben")
        assert [(each.text, each.actor) for each in await process.recovery.notes(subject)] == [
            ("call the supplier", "ann"),
            ("done", "ben"),
        ]
        assert note.at.timestamp() == pytest.approx(process.clock.time())
    assert (await process.recovery.groups())[0].notes == 2
    assert len((await process.recovery.show(id_)).notes) == 2
    await process.recovered()
    assert len(await process.recovery.notes(f"group:{group}")) == 2


async def test_archived_messages_are_not_recovered_by_a_selection(process):
    """Behaviour 23: a list of ids has them too, and says why they are skipped."""
    ids = await process.fail(2)
    await process.recovery.archive(ids[:1])
    await process.work()
    operation = await process.recovered(ids)
    assert (operation.progress.forwarded, operation.progress.skipped) == (1, 1)
    (part,) = await process.recovery.outcomes(operation.number, [Outcome.SKIPPED])
    assert (part.id, part.reason) == (ids[0], "it is archived")


async def test_archiving_twice_at_once_is_refused(process):
    """Behaviour 50: the second archive of the same messages is told of the first."""
    await process.fail(3)
    first = await process.recovery.archive("status:unresolved")
    with pytest.raises(OperationConflict) as caught:
        await process.recovery.archive("status:unresolved")
    assert caught.value.operation == first.number
