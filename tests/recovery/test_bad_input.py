# SPDX-License-Identifier: MIT
"""What nobody should send us, and what must not stop anything for others."""

import pytest

from redrive.broker import Message
from redrive.broker.rules import CONFIRMATIONS
from redrive.clock import utc
from redrive.errors import RedriveError, UsageError
from redrive.recovery import Filter, Status, Transform
from redrive.worker.confirmation import confirmation_of

pytestmark = pytest.mark.before_databases

ODD_TEXTS = ["a\0b", "\0", "é\U0001f40d", "x" * 5_000, "' OR 1=1 --", "$1 ? @. @lock %s {0}", "\\", "\u202e\ufeff"]


@pytest.mark.parametrize("text", ODD_TEXTS, ids=range(len(ODD_TEXTS)))
async def test_odd_texts_in_headers_stop_nothing(process, text):
    """Behaviour 6, 13: wherever they stand, the message is recorded or set aside, and the others are recorded."""
    names = [
        *("redrive-recovery-tag", "redrive-recovery-to", "redrive-recovery-staging", "redrive-failed-at"),
        *("redrive-failed-exception-type", "redrive-failed-exception-message", "redrive-failed-stack-trace"),
        *(
            "redrive-failed-reason",
            "redrive-failed-host",
            "redrive-failed-queue",
            "NServiceBus.FailedQ",
            "x-death",
            text,
        ),
    ]
    made = []
    for name in names:
        failed = process.site.failed_message()
        made.append(Message(failed.body, id=failed.id, headers={**failed.headers, name: text}))
    await process.broker.send_many("error", made)
    await process.fail(1)
    assert (await process.broker.inspect("error")).ready == 0
    found = await process.recovery.count("status:any") + len(await process.recovery.aside())
    assert found == len(names) + 1
    for each in await process.recovery.failed("status:any"):
        assert await process.recovery.count(Filter(ids=[each.id], status="any")) == 1


TAG, MARK = "redrive-recovery-tag", "f" * 32


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {TAG: tag}
            for tag in (None, 5, True, "", "a\0b", "1.1.c", f"1.1.c.{MARK}", f"-1.1.c.{MARK}", f"1.{2**70}.c.{MARK}")
        ),
        *({TAG: tag} for tag in (f"1.1.x.{MARK}", f"٣.1.c.{MARK}", f"1.1.c.{MARK}\n", "1" * 5_000)),
        {"redrive-recovery-queue": "billing"},
        {"redrive-recovery-queue": 5},
        {"redrive-recovery-message": "another"},
        {"redrive-recovery-message": None},
        {"redrive-recovery-digest": MARK},
        {"redrive-recovery-digest": None},
    ],
    ids=str,
)
async def test_odd_confirmations_confirm_nothing_and_stop_nothing(process, changes):
    """Behaviour 57, D2b: what was not sealed for this very copy counts for nothing; those that come with it do."""
    ids = await process.fail(2)
    await process.recovered()
    sent = await process.arrived()
    (word,) = confirmation_of(sent[0].message, "orders", utc(0))
    await process.broker.send(CONFIRMATIONS, Message(b"", headers={**word.message.headers, **changes}))
    await process.succeed(sent[1])
    assert [(await process.summary(id_)).status for id_ in ids] == [Status.RETRY_ISSUED, Status.RESOLVED]
    info = await process.broker.inspect(CONFIRMATIONS)
    assert (info.ready, info.locked) == (0, 0)


@pytest.mark.parametrize("at", [None, "x", 5, "9999-12-31T23:59:59-23:00"])
async def test_a_confirmation_with_an_odd_time_counts(process, at):
    """Behaviour 57: when it was handled matters less than that it was."""
    (id_,) = await process.fail(1)
    await process.recovered()
    (sent,) = await process.arrived()
    (word,) = confirmation_of(sent.message, "orders", utc(0))
    await process.broker.send(
        CONFIRMATIONS, Message(b"", headers={**word.message.headers, "redrive-recovery-handled-at": at})
    )
    await process.recovery.ingest()
    assert (await process.summary(id_)).status is Status.RESOLVED


@pytest.mark.parametrize("text", ["a\0b", "half \ud800"], ids=["NUL", "surrogate"])
@pytest.mark.parametrize("which", ["actor", "reason", "key"])
async def test_texts_that_cannot_be_stored_are_the_callers_error(process, text, which):
    """L5.2: the same on every engine: refused as a wrong argument, or stored; never as a database that is away."""
    await process.fail(1)
    try:
        operation = await process.recovery.recover("status:unresolved", **{which: text})
    except (UsageError, ValueError):
        assert await process.recovery.operations() == []
    else:
        assert (await process.recovery.operation(operation.number)).progress.total == 1


@pytest.mark.parametrize("text", ["a\0b", "half \ud800"], ids=["NUL", "surrogate"])
async def test_notes_with_odd_texts_are_the_callers_error_or_stored(process, text):
    """Behaviour 69: likewise for notes."""
    for values in ({"text": text}, {"text": "x", "actor": text}):
        try:
            await process.recovery.note("group:1", **values)
        except (UsageError, ValueError):
            continue
    assert isinstance(await process.recovery.notes("group:1"), list)


@pytest.mark.parametrize("subject", ["", "group", "group:", "queue:orders", "failure"])
async def test_notes_are_about_something(process, subject):
    """Behaviour 69: a subject that is none is refused."""
    with pytest.raises(UsageError):
        await process.recovery.note(subject, "x")


async def test_what_looks_like_a_name_of_an_operation_is_none(process):
    """Behaviour 43: numbers that nobody has are refused with a name for it."""
    for ask in (process.recovery.operation, process.recovery.outcomes, process.recovery.pause, process.recovery.cancel):
        for number in (0, -1, 2**62):
            with pytest.raises(UsageError):
                await ask(number)


async def test_ids_that_are_none_of_ours_select_nothing(process):
    """Behaviour 20: also texts that a database would take for something else."""
    ids = await process.fail(1)
    chosen = [*ids, *ODD_TEXTS, "F" * 32, "0" * 31]
    operation = await process.recovered(chosen)
    assert operation.progress.total == 1
    assert len(operation.unknown_ids) == len(chosen) - 1


async def test_a_transform_that_makes_a_message_too_large_costs_only_that_message(process):
    """Behaviour 25: it cannot be sent; it says why, and the others go."""
    await process.broker.declare("small", max_message_bytes=2_000)
    await process.fail(1, queue="small")
    await process.fail(1)
    operation = await process.recovered(transform=Transform(body=b"x" * 5_000))
    assert (operation.progress.forwarded, operation.progress.failed) == (1, 1)


async def test_a_destination_that_wants_sessions_refuses_what_has_none(process):
    """Behaviour 33: the queue was made anew with other settings; the message is unresolved, with the reason."""
    await process.fail(2)
    await process.broker.delete("orders")
    await process.broker.declare("orders", requires_session=True)
    operation = await process.recovered()
    assert (operation.state.word, operation.progress.failed) == ("completed", 2)
    assert all(each.reason for each in await process.recovery.outcomes(operation.number))


async def test_text_of_a_filter_is_never_part_of_a_statement(process):
    """Behaviour 59: quotes, marks and wildcards are looked for as they are."""
    await process.fail(1, said="100% _odd_ 'quoted' \\ ? $1")
    await process.fail(1, said="plain")
    for text in ("100%", "_odd_", "'quoted'", "\\", "? $1"):
        assert await process.recovery.count(Filter(text=text)) == 1
    assert await process.recovery.count(Filter(text="100_")) == 0
    with pytest.raises(RedriveError):
        await process.recovery.count("nonsense:1")
