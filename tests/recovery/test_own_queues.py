# SPDX-License-Identifier: MIT
"""Nothing that is recovery's own may leave sight: confirmations, staged copies, error queues, their dead letters."""

import asyncio

import pytest

from redrive.broker import Message
from redrive.broker.rules import CONFIRMATIONS
from redrive.errors import EngineUnavailable
from redrive.recovery import RecoveryFault, Status
from redrive.recovery.own_queues import PAGE_BYTES
from redrive.recovery.states import OperationEvent
from redrive.worker.confirmation import confirmation_of
from tests.recovery.sites import Crash

STAGING = "redrive.staging/orders"


async def sent_again(process, number):
    """Let messages fail and be sent again, and their confirmations wait to be read; return the operation."""
    await process.fail(number)
    operation = await process.recovered()
    for each in await process.arrived():
        await process.broker.apply(*confirmation_of(each.message, each.queue, each.enqueued_at))
    return operation


async def bury(process, queue):
    """Let everything in a queue die, as a queue does with what nobody completes."""
    for each in await process.broker.receive(queue, max_messages=100):
        await each.dead_letter("MaxDeliveryCountExceeded")


async def is_read(process):
    """Read everything, and say whether nothing is left in the queues of recovery's own."""
    await process.recovery.ingest()
    ours = ("error", CONFIRMATIONS, STAGING)  # and not hints, which end by themselves
    infos = [each for each in await process.broker.queues() if each.name in ours]
    return not sum(each.ready + each.locked + each.dead for each in infos)


# --- confirmations


async def test_a_store_that_is_away_for_long_costs_no_confirmation(process):
    """D3: an infrastructure fault uses up no deliveries."""
    operation = await sent_again(process, 3)
    process.fails("ledger.confirm", EngineUnavailable("away"), times=30)
    for _ in range(30):
        with pytest.raises(EngineUnavailable):
            await process.recovery.ingest()
    assert [each.delivery_count for each in await process.broker.peek(CONFIRMATIONS)] == [0, 0, 0]
    await process.recovery.ingest()
    assert (await process.recovery.operation(operation.number)).progress.succeeded == 3


@pytest.mark.before_databases
async def test_readers_that_die_again_and_again_cost_no_confirmation(site):
    """D3: more often than any queue delivers as a rule."""
    process = await site.open()
    operation = await sent_again(process, 2)
    for _ in range(15):
        process.dies("ledger.confirm")
        with pytest.raises(Crash):
            await process.recovery.ingest()
        await site.crash()
        process = await site.open()
        site.clock.advance(100)
    await site.until(lambda: is_read(process))
    assert (await process.recovery.operation(operation.number)).progress.succeeded == 2


async def test_a_confirmation_that_is_a_dead_letter_is_heard(process):
    """D3: whatever moved it there."""
    operation = await sent_again(process, 3)
    await bury(process, CONFIRMATIONS)
    assert await process.recovery.ingest()
    assert (await process.recovery.operation(operation.number)).progress.succeeded == 3
    assert await is_read(process)


async def test_queues_of_our_own_that_are_there_already_are_set_as_ours_are(site):
    """D3: they may have been declared by an earlier version, or by hand."""
    process = await site.open()
    await process.broker.update(CONFIRMATIONS, max_delivery_count=1, max_message_bytes=10, default_ttl=1.0)
    process = await site.open()
    settings = (await process.broker.inspect(CONFIRMATIONS)).settings
    assert (settings.max_delivery_count, settings.max_message_bytes) == (2_000, 100 * 1_048_576)
    assert settings.default_ttl is None


# --- staged copies


async def test_staged_copies_that_are_dead_letters_are_forwarded(process):
    """D3: they are part of the staging queue, and nothing is taken for sent that was not."""
    await process.fail(3)
    process.at("ledger.staged", lambda *_: bury(process, STAGING), when="after")
    operation = await process.recovered()
    assert operation.progress.forwarded == 3
    assert len(await process.arrived()) == 3
    assert await is_read(process)


async def test_staged_copies_that_are_dead_letters_are_taken_back_by_a_cancelled_operation(process):
    """D3: the same when they are not to be sent any more."""
    ids = await process.fail(3)
    operation = await process.recovery.recover(ids)

    async def bury_and_cancel(*_values):
        await bury(process, STAGING)
        await process.raw_ledger.change(operation.number, OperationEvent.CANCEL)

    process.at("ledger.staged", bury_and_cancel, when="after")
    await process.work()
    assert await process.arrived() == []
    assert {(await process.summary(id_)).status for id_ in ids} == {Status.UNRESOLVED}
    assert await is_read(process)


async def test_dead_letters_of_a_staging_queue_that_nobody_waits_for_are_looked_at(process):
    """D3: a copy that was left over is dropped, and what is no copy is set aside; both are counted."""
    await process.fail(1)
    process.at("ledger.staged", lambda *_: process.broker.send(STAGING, Message(b"?", id="foreign")))
    kept = []

    async def keep(*_values):
        kept.extend(await process.broker.peek(STAGING))

    process.at("ledger.staged", keep, when="after")
    await process.recovered()
    copy = next(each for each in kept if each.id != "foreign")
    await process.broker.send_many(STAGING, [copy.message, Message(b"??", id="foreign-2")])
    await bury(process, STAGING)
    await process.work()
    assert await is_read(process)
    assert [each.strays for each in await process.recovery.lanes()] == [1]
    assert [each.received.body for each in await process.recovery.aside()] == [b"?", b"??"]
    assert len(await process.arrived()) == 1


# --- error queues


@pytest.mark.before_databases
@pytest.mark.parametrize("max_delivery_count", [1, 3, 10])
async def test_a_message_that_kills_its_reader_is_set_aside_alone(site, max_delivery_count):
    """D6: those around it are read, whatever the error queue does with what is delivered too often."""
    process = await site.open()
    await process.broker.update("error", max_delivery_count=max_delivery_count)
    made = [site.failed_message(id=f"m-{number}") for number in range(10)]
    await process.broker.send_many("error", made)
    deaths = 0
    while True:
        for nth in range(1, 31):
            process.at("ledger.record", lambda arrivals, process=process: kill(process, arrivals), nth=nth)
        try:
            await site.until(lambda process=process: is_read(process))
        except Crash:
            deaths += 1
            assert deaths <= 9, "it costs more readers than four among others, and four alone"
            await site.crash()
            process = await site.open()
            site.clock.advance(100)
        else:
            break
    assert {each.message_id for each in await process.recovery.failed()} == {each.id for each in made} - {"m-4"}
    (aside,) = await process.recovery.aside()
    assert (aside.received.id, aside.received.body) == ("m-4", b"order m-4")
    assert "stopped in the middle" in aside.reason
    process._hooks.clear()  # the reader was mended
    assert await process.recovery.reimport() == (1, 0)


def kill(process, arrivals):
    if any(arrival.message.id == "m-4" for arrival in arrivals):
        process.is_dead = True


@pytest.mark.before_databases
@pytest.mark.parametrize(
    "error",
    [MemoryError, *(pytest.param(each, marks=pytest.mark.torture) for each in (RecursionError, ValueError))],
)
async def test_a_message_that_cannot_be_read_by_anybody_stops_no_service(site, error):
    """D6: whatever goes wrong with it, the same process goes on with the others, and sets it aside."""
    process = await site.open()
    made = [site.failed_message(id=f"m-{number}") for number in range(10)]
    await process.broker.send_many("error", made)

    def break_off(arrivals):
        if any(arrival.message.id == "m-4" for arrival in arrivals):
            raise error("too much")

    for nth in range(1, 60):
        process.at("ledger.record", break_off, nth=nth)
    running = asyncio.create_task(process.recovery.run())

    async def is_aside():
        return bool(await process.recovery.aside())

    await site.until(is_aside, every=5.0)
    process.recovery.stop()
    await site.play(running)
    assert {each.message_id for each in await process.recovery.failed()} == {each.id for each in made} - {"m-4"}
    assert [each.doing for each in process.events if isinstance(each, RecoveryFault)].count("reading error") >= 3


@pytest.mark.before_databases
async def test_readers_that_die_for_reasons_of_their_own_set_nobody_aside(site):
    """D6: a message that was only there when they died is moved to where it is read alone, and recorded."""
    process = await site.open()
    made = [site.failed_message(id=f"m-{number}") for number in range(10)]
    await process.broker.send_many("error", made)
    for _ in range(7):
        process.dies("engine.lock_next", when="after")
        with pytest.raises(Crash):
            await process.recovery.ingest()
        await site.crash()
        process = await site.open()
        site.clock.advance(100)
    await site.until(lambda: is_read(process))
    assert {each.message_id for each in await process.recovery.failed()} == {each.id for each in made}
    assert await process.recovery.aside() == []


async def test_dead_letters_of_an_error_queue_are_read(process):
    """D6: and go where they failed, not into the error queue."""
    await process.broker.send_many("error", [process.site.failed_message(id=f"m-{number}") for number in range(3)])
    await bury(process, "error")
    assert await process.recovery.ingest()
    assert {each.queue for each in await process.recovery.failed()} == {"orders"}
    assert (await process.recovered()).progress.forwarded == 3


async def test_a_dead_letter_of_an_error_queue_that_says_nothing_is_set_aside(process):
    """D6: it did not fail in the error queue, so it is not sent there."""
    await process.broker.send("error", Message(b"?", id="m"))
    await bury(process, "error")
    await process.recovery.ingest()
    assert await process.recovery.count("status:any") == 0
    assert [each.received.id for each in await process.recovery.aside()] == ["m"]


async def test_a_failure_that_was_read_is_known_when_it_comes_as_a_dead_letter(process):
    """D6: it was recorded, could not be completed, and died: it is the same failure."""
    process.raw_ledger.is_with_queues = False
    await process.broker.send("error", process.site.failed_message(id="m"))
    process.fails("engine.apply", EngineUnavailable("no answer"))
    with pytest.raises(EngineUnavailable):
        await process.recovery.ingest()
    process.clock.advance(100)
    await bury(process, "error")
    await process.site.until(lambda: is_read(process))
    (found,) = await process.recovery.failed()
    assert found.attempts == 1


@pytest.mark.large
async def test_large_failures_are_read_a_few_at_a_time(site):
    """D6: a page is bounded by bytes, not only by its number of messages."""
    process = await site.open()
    await process.broker.update("error", max_message_bytes=8 * 1_048_576)
    for number in range(8):
        await process.broker.send("error", site.failed_message(id=f"m-{number}", body=bytes(5 * 1_048_576)))
    pages = []
    for nth in range(1, 20):
        process.at("ledger.record", lambda page: pages.append([len(each.message.body) for each in page]), nth=nth)
    await process.recovery.ingest()
    assert sum(map(len, pages)) == 8
    assert max(map(sum, pages)) <= PAGE_BYTES


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit])
async def test_a_classifier_that_wants_to_end_the_process_costs_no_failure(site, error):
    """D6: whatever it raises."""

    def leave(_failure, _message):
        raise error

    process = await site.open(classifiers={"mine": leave})
    await process.fail(1)
    assert [each.title for each in await process.recovery.groups(by="mine")] == [f"mine failed: {error.__name__}"]
