# SPDX-License-Identifier: MIT
"""Which failed message a failure or a confirmation belongs to: never another's, whatever its headers say."""

import asyncio
from dataclasses import replace

import pytest

from redrive.broker import Message
from redrive.clock import utc
from redrive.recovery import Outcome, Status, Transform
from redrive.recovery.tags import Tag, read_tag, seal
from redrive.worker import Context, confirmation_of
from redrive.worker.confirmation import digest_of

TAG = "redrive-recovery-tag"
KEY = bytes(32)


async def pass_on(_body: bytes, context: Context):
    context.send("second", context.message)


async def pass_on_by_the_broker(_body: bytes, context: Context):
    await context.broker.send("second", context.message)


async def send_another_with_its_headers(body: bytes, context: Context):
    context.send("second", Message(b"for " + body, id=context.message.id, headers=dict(context.headers)))


async def send_another_by_the_broker(body: bytes, context: Context):
    await context.broker.send("second", Message(b"for " + body, id=context.message.id, headers=dict(context.headers)))


async def fan_out(_body: bytes, context: Context):
    for queue in ("second", "third"):
        await context.broker.send(queue, context.message)


async def fail(body: bytes):
    raise LookupError(body)


async def succeed(_body: bytes):
    pass


async def settled(process, queue):
    """Wait until nothing is left in a queue."""

    async def is_empty():
        info = await process.broker.inspect(queue)
        return not info.ready + info.locked

    await process.site.until(is_empty)


async def read(process, is_confirmation_first):
    """Read failures and confirmations, in one order or the other."""
    ingester = process.recovery._ingester
    reads = [process.recovery.ingest, ingester.take_confirmations]
    for each in reads[::-1] if is_confirmation_first else reads:
        await each()


@pytest.mark.parametrize("is_confirmation_first", [False, True])
@pytest.mark.parametrize(
    "handler",
    [pass_on, pass_on_by_the_broker, send_another_with_its_headers, send_another_by_the_broker, fan_out],
    ids=lambda each: each.__name__,
)
async def test_what_a_handler_makes_of_a_recovered_message_is_another_message(process, handler, is_confirmation_first):
    """D1: the recovered one is confirmed, and each message made of it that fails is found and can be recovered."""
    made = ["second", "third"] if handler is fan_out else ["second"]
    for queue in ("second", "third"):
        await process.broker.declare(queue)
    first = await process.fail(5)
    operation = await process.recovered()
    async with process.worker(handler):
        await settled(process, "orders")
    for queue in made:
        async with process.worker(fail, queue=queue):
            await settled(process, queue)
    await read(process, is_confirmation_first)
    await process.recovery.ingest()

    assert {(await process.summary(id_)).status for id_ in first} == {Status.RESOLVED}
    assert (await process.recovery.operation(operation.number)).progress.succeeded == 5
    failed = await process.recovery.failed()
    assert sorted(each.queue for each in failed) == sorted(made * 5)
    assert {each.attempts for each in failed} == {1}
    assert (await process.recovered()).progress.forwarded == 5 * len(made)
    for queue in made:
        async with process.worker(succeed, queue=queue):
            await settled(process, queue)
    await process.recovery.ingest()
    assert await process.recovery.count("status:resolved") == 5 + 5 * len(made)


async def test_a_message_that_is_passed_on_begins_without_redeliveries(process):
    """D1: how often one message was postponed in one queue is nothing to another message in another."""
    await process.broker.declare("second")
    counters = {"redrive-delayed-retries": 5, "redrive-earlier-deliveries": 7, TAG: "1.1.c." + "0" * 32, "mine": "x"}
    await process.broker.send("orders", Message(b"x", id="m", headers=counters))
    async with process.worker(pass_on):
        await settled(process, "orders")
    (sent,) = await process.arrived("second")
    assert sent.headers == {"mine": "x"}


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_sender_cannot_replace_the_failed_message_of_another(process, is_known):
    """D2b: a tag that was made up, or taken from another message, makes no failure that message's."""
    (theirs,) = await process.fail(1, body=b"theirs")
    await process.recovered()
    (sent,) = await process.arrived()
    tag = sent.headers[TAG] if is_known else "1.1.c." + "0" * 32
    await process.fail(1, body=b"mine", headers={TAG: tag})
    assert (await process.recovery.show(theirs)).message.body == b"theirs"
    assert (await process.summary(theirs)).status is Status.RETRY_ISSUED
    (mine,) = await process.recovery.failed()
    assert (mine.attempts, (await process.recovery.show(mine.id)).message.body) == (1, b"mine")
    assert (await process.recovery.show(mine.id)).attempts[0].operation is None


async def test_a_message_does_not_choose_where_a_worker_sends(process):
    """D2b: no header of a stranger makes a worker send to a queue that the program did not name."""
    for name in ("redrive-recovery-confirm", "redrive-recovery-queue", "redrive-recovery-to", TAG):
        await process.broker.send("orders", Message(b"x", headers={name: "billing"}))
    async with process.worker(succeed):
        await settled(process, "orders")
    assert (await process.broker.inspect("billing")).ready == 0
    await process.recovery.ingest()
    assert (await process.broker.inspect("redrive.confirmations")).ready == 0


async def test_a_sender_does_not_choose_where_a_dead_letter_goes(site):
    """D2b: where a message died is known by its queue; headers may be the sender's."""
    process = await site.open(sources=("error", "orders/$dead"))
    for name in ("redrive-failed-queue", "NServiceBus.FailedQ", "DeadLetterSource", "MT-Fault-InputAddress"):
        await process.broker.send("orders", Message(b"x", id=name, headers={name: "billing"}))
    for each in await process.broker.receive("orders", max_messages=10):
        await each.dead_letter("Broken")
    await process.recovery.ingest()
    assert {each.queue for each in await process.recovery.failed()} == {"orders"}


async def test_an_error_queue_that_looks_for_duplicates_loses_no_failure(process):
    """D2: two messages with one id fail, and the error queue knows the id."""
    async with process.worker(fail):
        await process.site.ticks()
        await process.broker.update("error", duplicate_detection=3_600)  # refused before the worker starts
        await process.broker.send_many("orders", [Message(b"one", id="m"), Message(b"two", id="m")])
        await settled(process, "orders")
    await process.recovery.ingest()
    assert await process.recovery.count() == 2


async def test_a_transformed_copy_that_fails_leaves_the_message_as_it_was(process):
    """L5.11: a transform that was a mistake costs nobody the original."""
    (id_,) = await process.fail(1, body=b"original", headers={"a": 1})
    operation = await process.recovered(transform=Transform(body=b"spoiled", set_headers={"a": 2}))
    (sent,) = await process.arrived()
    await process.fail_again(sent)
    found = await process.recovery.show(id_)
    assert (found.message.body, found.message.headers["a"]) == (b"original", 1)
    assert (found.summary.status, found.summary.attempts) == (Status.UNRESOLVED, 2)
    assert found.parts[0].outcome is Outcome.FAILED_AGAIN
    assert found.attempts[0].operation == operation.number
    await process.recovered()
    assert await process.bodies() == [b"original"]


async def test_the_original_of_an_edited_copy_that_fails_can_be_restored(process):
    """F11: it is not resolved; it is archived, as its copy has taken its place."""
    (id_,) = await process.fail(1, body=b"original")
    await process.recovery.edit(id_, Transform(body=b"edited"))
    await process.work()
    await process.fail_again(*await process.arrived())
    (copy,) = await process.recovery.failed()
    original = await process.summary(id_)
    assert (original.status, original.edited_as, copy.edit_of) == (Status.ARCHIVED, copy.id, id_)
    await process.recovery.restore([id_])
    await process.work()
    assert (await process.recovered()).progress.forwarded == 2
    assert await process.bodies() == [b"edited", b"original"]


@pytest.mark.parametrize("is_failure", [False, True])
async def test_what_becomes_of_a_copy_that_was_taken_over_is_told_where_it_belongs(process, is_failure):
    """L5.9: two operations have sent it; what each copy came to is in its own operation."""
    (id_,) = await process.fail(1)
    await process.recovered()
    (older,) = await process.arrived()
    await process.recovered("status:retry-issued", again=True)
    (newer,) = await process.arrived()
    if is_failure:
        await process.fail_again(older)
        assert (await process.summary(id_)).status is Status.RETRY_ISSUED  # it lives on in the newer copy
        await process.succeed(newer)
    else:
        await process.succeed(older)
    found = await process.recovery.show(id_)
    assert found.summary.status is Status.RESOLVED
    words = [each.outcome.word for each in found.parts]
    assert words == (["succeeded", "failed-again"] if is_failure else ["closed", "succeeded"])


# --- tags


MESSAGE = Message(b"body", id="m")


def told(tag, **changes):
    how = {"queue": "orders", "message_id": "m", "digest": digest_of(b"body"), **changes}
    return read_tag(tag, changes.pop("key", KEY), **{name: how[name] for name in ("queue", "message_id", "digest")})


@pytest.mark.parametrize("is_edited", [False, True])
def test_a_tag_says_what_was_sealed(is_edited):
    tag = Tag(12, 345, is_edited=is_edited)
    assert told(seal(tag, KEY, queue="orders", message=MESSAGE)) == tag
    assert told(seal(tag, KEY, queue="orders", message=MESSAGE), queue="orders/$dead") == tag


@pytest.mark.parametrize(
    "changes",
    [{"queue": "billing"}, {"message_id": "n"}, {"digest": digest_of(b"other")}, {"key": bytes(31) + b"\1"}],
)
def test_a_tag_counts_only_for_what_it_was_sealed_for(changes):
    assert told(seal(Tag(1, 2), KEY, queue="orders", message=MESSAGE), **changes) is None


def test_no_part_of_a_tag_can_be_changed():
    tag = seal(Tag(12, 345), KEY, queue="orders", message=MESSAGE)
    for place, letter in enumerate(tag):
        for other in "0123456789abcdefce.":
            if other != letter:
                assert told(tag[:place] + other + tag[place + 1 :]) is None


def test_parts_of_a_tag_do_not_run_into_each_other():
    """A queue ``a`` and an id ``b`` are not a queue ``ab`` and no id."""
    tag = seal(Tag(1, 2), KEY, queue="ab", message=replace(MESSAGE, id="c"))
    assert told(tag, queue="a", message_id="bc") is None


def test_only_a_recovered_copy_is_confirmed():
    assert confirmation_of(MESSAGE, "orders", utc(0)) == []
    assert confirmation_of(replace(MESSAGE, headers={TAG: 5}), "orders", utc(0)) == []


async def test_two_processes_make_one_key(site):
    """The key is made once, whoever asks first; a third process reads what was sealed by either."""
    processes = [await site.open() for _ in range(3)]
    first, *others = await asyncio.gather(*(each.recovery.ledger.key() for each in processes))
    assert (len(first), others) == (32, [first, first])
