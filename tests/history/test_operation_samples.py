# SPDX-License-Identifier: MIT
"""Operations over time: what had become of their messages, by destination; how fast they are."""

from collections import Counter
from datetime import timedelta

from redrive import open_recovery
from redrive.broker import Message
from redrive.clock import utc
from redrive.engines.sql.history import rounds
from redrive.history import OperationSample, pace_of
from redrive.recovery import LaneSettings, Outcome, ServiceSettings
from redrive.worker import Recoverability, Worker


def sample(seconds, sent, pending=0):
    counts = {Outcome.FORWARDED: sent, Outcome.PENDING: pending}
    return OperationSample(at=utc(1_800_000_000) + timedelta(seconds=seconds), lanes={"orders": counts})


def test_the_pace_is_that_of_the_last_minute():
    samples = [sample(0, 0), sample(100, 10), sample(130, 310), sample(160, 610)]
    assert pace_of(samples, 100) == pace_of(samples[1:], 100)
    assert (pace_of(samples, 100).per_second, pace_of(samples, 100).left_s) == (10.0, 10.0)


def test_an_operation_that_does_not_move_has_no_time_left_to_say():
    assert pace_of([sample(0, 5), sample(30, 5)], 10).left_s is None
    assert pace_of([sample(0, 5)], 10).left_s is None
    assert pace_of([], 10).per_second == 0.0


async def test_what_became_of_messages_is_sampled_by_destination_while_it_changes(broker, history, place):
    await broker.declare("error")
    worker, is_well = Worker(), []

    @worker.handler(
        "orders", recoverability=Recoverability(immediate=0, delayed=None, error_queue="error"), slow_down=None
    )
    async def handle(_order: bytes) -> None:
        if not is_well:
            raise ConnectionError

    async def run_all():
        while (await broker.inspect("orders")).ready:
            await worker.run(broker, until_idle=True)

    async def upkeep():
        place.clock.advance(5)
        await broker.engine.upkeep()

    await broker.send_many("orders", [b"1", b"2", b"3"])
    async with open_recovery(broker) as recovery:
        await run_all()
        await recovery.ingest()
        asked = await recovery.recover("status:unresolved")
        await upkeep()
        await recovery.step()
        await upkeep()
        await upkeep()
        is_well.append(True)
        await run_all()
        await recovery.step()
        await upkeep()
        await upkeep()
    found = await history.operation(asked.number)
    assert [each.lanes.get("orders", {}) for each in found][-2:] == [{Outcome.FORWARDED: 3}, {Outcome.SUCCEEDED: 3}]
    assert [each.sent for each in found][-2:] == [3, 3]
    assert len({each.at for each in found}) == len(found) <= 3


async def test_the_last_sample_is_what_is_so_now_also_between_two_samples(broker, history, place):
    await broker.declare("bills")
    told = {"redrive-failed-exception-type": "Odd"}
    made = [
        Message(b"{}", id=f"{queue}-{number}", headers={**told, "redrive-failed-queue": queue})
        for number in range(3)
        for queue in ("orders", "bills")
    ]
    await broker.declare("error")
    await broker.send_many("error", made)
    async with open_recovery(broker, settings=ServiceSettings(lanes=LaneSettings(page=2))) as recovery:
        await recovery.ingest()
        number = (await recovery.recover("status:unresolved")).number
        await broker.engine.upkeep()
        while not (await recovery.operation(number)).is_over:
            await recovery.step()
            place.clock.advance(0.5)
            parts = await recovery.outcomes(number)
            last = (await history.operation(number))[-1]
            assert {each: n for each, n in last.outcomes.items() if each is not Outcome.PENDING} == dict(
                Counter(part.outcome for part in parts)
            )
        assert last.lanes == {"orders": {Outcome.FORWARDED: 3}, "bills": {Outcome.FORWARDED: 3}}


async def test_samples_of_operations_that_ended_long_ago_are_removed(broker, history, place):
    await test_what_became_of_messages_is_sampled_by_destination_while_it_changes(broker, history, place)
    place.clock.advance(36 * 86_400)
    await broker.engine.run(rounds.forget_samples)
    assert await history.operation(1) == []
