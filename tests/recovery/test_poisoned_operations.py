# SPDX-License-Identifier: MIT
"""Operations that cannot be worked on: each is held up alone, with the reason, and every service goes on."""

import asyncio
from collections import Counter

import pytest

from redrive.broker import Send
from redrive.errors import EngineUnavailable, InvalidSetting, TransformFailed
from redrive.recovery import OperationHalted, OperationState, Outcome, RecoveryFault, Transform, TransformSettings
from redrive.recovery.transform import LARGEST_BODY

FUNCTIONS = "tests.recovery.functions"
ALLOWED = {"transforms": TransformSettings(allow=f"{FUNCTIONS}:*", seconds=30)}


async def stored(process, function, **how):
    """Ask for an operation as somebody does whose settings allow more, and return it."""
    process.recovery._transforms = TransformSettings(allow=(function,))
    return await process.recovery.recover("status:unresolved", transform=Transform(function=function), **how)


async def served(process, number):
    """Serve until an operation is over or held up; return it."""
    running = asyncio.create_task(process.recovery.run())
    ended = (OperationState.COMPLETED, OperationState.PAUSED)

    async def is_over():
        assert not running.done() or running.result()
        return (await process.recovery.operation(number)).state in ended

    await process.site.until(is_over, every=0.25)
    process.recovery.stop()
    await process.site.play(running)
    return await process.recovery.operation(number)


@pytest.mark.parametrize("function", ["sys:exit", "os:_exit", "tests.recovery.not_there:f"])
async def test_a_function_that_no_setting_names_is_not_called(site, function):
    """D4: ``Transform(function="sys:exit")`` ended every service that started. Now it waits for a person."""
    process = await site.open()
    await process.fail(3)
    with pytest.raises(InvalidSetting, match="is not allowed here: allow it, in the process that requests it"):
        await process.recovery.recover("status:unresolved", transform=Transform(function=function))
    assert await process.recovery.operations() == []
    operation = await stored(process, function)
    operation = await served(process, operation.number)
    assert operation.state is OperationState.PAUSED
    assert f"the function {function} is not allowed here: allow it" in operation.state_reason
    assert operation.state_reason.endswith("then resume it")
    assert [each.operation for each in process.events if isinstance(each, OperationHalted)] == [operation.number]
    assert (await process.recovery.trail())[0].action == "halt"
    cancelled = await process.site.play(process.recovery.cancel(operation.number))
    assert cancelled.progress.cancelled == 3
    assert (await process.recovered("status:unresolved")).progress.forwarded == 3


async def test_a_preview_and_an_edit_call_nothing_that_no_setting_names(site):
    """D4: they keep to the same rules."""
    process = await site.open()
    (id_,) = await process.fail(1)
    (preview,) = await process.recovery.preview("", Transform(function="sys:exit"))
    assert "sys:exit is not allowed here" in preview.problem
    with pytest.raises(TransformFailed, match="not allowed here"):
        await process.recovery.edit(id_, Transform(function="sys:exit"))


async def test_what_a_setting_names_later_goes_on(site):
    """D4: nothing failed because of the wrong settings; with the right ones the operation is resumed."""
    process = await site.open()
    await process.fail(2)
    operation = await stored(process, f"{FUNCTIONS}:grow")
    await process.work()
    assert (await process.recovery.operation(operation.number)).state is OperationState.PAUSED
    await process.close()
    process = await site.open(settings=ALLOWED)
    await process.recovery.resume(operation.number)
    await process.work()
    operation = await process.recovery.operation(operation.number)
    assert (operation.state.word, operation.progress.forwarded) == ("completed", 2)
    assert {len(each) for each in await process.bodies()} == {700_000}


@pytest.mark.parametrize(
    ("function", "failed", "reason"),
    [("leave", 1, "raised SystemExit: 1"), ("cancelled", 3, "raised CancelledError"), ("die", 3, "ended its process")],
)
async def test_a_function_that_ends_its_process_fails_its_message_only(site, function, failed, reason):
    """D4: ``SystemExit`` ended the service, ``CancelledError`` left the operation running for ever."""
    process = await site.open(settings=ALLOWED)
    await process.fail(3)
    operation = await process.recovery.recover(
        "status:unresolved", transform=Transform(function=f"{FUNCTIONS}:{function}")
    )
    operation = await served(process, operation.number)
    assert (operation.state.word, operation.progress.failed) == ("completed", failed)
    parts = await process.recovery.outcomes(operation.number, [Outcome.FAILED])
    assert all(reason in each.reason for each in parts)


async def test_a_function_that_never_comes_back_holds_up_its_operation_only(site):
    """D4: five in a row are enough; then the others of its lane go on, and nothing of it is lost."""
    process = await site.open(settings={"transforms": TransformSettings(allow=f"{FUNCTIONS}:*", seconds=0.3)})
    await process.fail(8)
    operation = await process.recovery.recover("status:unresolved", transform=Transform(function=f"{FUNCTIONS}:hang"))
    operation = await served(process, operation.number)
    assert operation.state is OperationState.PAUSED
    assert "5 messages in a row could not be changed" in operation.state_reason
    assert "hang took longer than 0.3 s, and was ended" in operation.state_reason
    assert operation.progress.remaining == 8
    await process.fail(1, queue="billing")
    assert (await process.recovered("queue:billing")).progress.forwarded == 1
    await process.site.play(process.recovery.cancel(operation.number))
    assert (await process.recovered("status:unresolved")).progress.forwarded == 8


async def test_a_service_whose_function_hangs_stops_at_once(site):
    """D4: SIGTERM did nothing until the function came back."""
    process = await site.open(settings={"transforms": TransformSettings(allow=f"{FUNCTIONS}:*", seconds=1_000)})
    await process.fail(1)
    await process.recovery.recover("status:unresolved", transform=Transform(function=f"{FUNCTIONS}:hang"))
    running = asyncio.create_task(process.recovery.run())
    while not process.calls["ledger.to_stage"]:
        await process.clock.sleep_async(0)
    process.recovery.stop()
    await running
    assert await process.arrived() == []


async def test_a_replacement_that_explodes_fails_its_message(process):
    """D4: a ``MemoryError`` ended each service."""
    await process.fail(1, body=b"a" * 200_000)
    await process.fail(1, body=b"b")
    explosion = Transform(replace=[("a", "a" * 10_000), ("a", "a" * 10_000)])
    operation = await process.recovered("status:unresolved", transform=explosion)
    assert (operation.progress.failed, operation.progress.forwarded) == (1, 1)
    (part,) = await process.recovery.outcomes(operation.number, [Outcome.FAILED])
    assert f"no queue takes more than {LARGEST_BODY:,}" in part.reason


@pytest.mark.large
async def test_messages_that_grow_are_not_all_in_memory_at_once(process):
    """D4: a page of a thousand small messages may become a page of a thousand large ones."""
    await process.fail(25, body=b"a" * 10)
    staged = []
    process.refuses(lambda effect: staged.append(process.calls["engine.apply"]) if staging(effect) else None)
    await process.recovered("status:unresolved", transform=Transform(replace=[("a", "b" * 90_000)]))
    assert sorted(Counter(staged).values()) == [6, 19]
    assert {len(each) for each in await process.bodies()} == {900_000}


def staging(effect):
    return isinstance(effect, Send) and effect.queue.startswith("redrive.staging/")


# --- mistakes of ours


@pytest.mark.parametrize(
    "error", [RuntimeError("a mistake of ours"), KeyError("x"), InvalidSetting("a", 1, "must not")]
)
@pytest.mark.parametrize("verb", ["ledger.to_stage", "ledger.staged", "ledger.pending", "ledger.mark", "ledger.claim"])
async def test_an_operation_that_cannot_be_worked_on_stops_no_service(process, verb, error):
    """D4: any exception that nobody had thought of ended every service, one after the other."""
    await process.fail(2)
    process.fails(verb, error, times=1)
    if verb == "ledger.pending":
        process.fails("engine.apply", EngineUnavailable("away"))
    poisoned = await process.recovery.recover("status:unresolved")
    operation = await served(process, poisoned.number)
    assert operation.state is OperationState.PAUSED or verb == "ledger.pending"  # that is asked by who goes on
    if operation.state is OperationState.PAUSED:
        assert f"it cannot be worked on: {type(error).__name__}" in operation.state_reason
        assert "repair that and resume it, or cancel it" in operation.state_reason
        await process.recovery.resume(operation.number)
        await process.work()
        operation = await process.recovery.operation(operation.number)
    assert (operation.state.word, operation.progress.forwarded) == ("completed", 2)
    assert len(await process.arrived()) == 2


async def test_others_go_on_beside_an_operation_that_never_works(site):
    """D4: it is paused, and whatever it was to do waits; another operation in the same lane is done."""
    process = await site.open()
    ids = await process.fail(4)
    numbers = [(await process.recovery.recover(some)).number for some in (ids[:2], ids[2:])]
    process.fails("ledger.to_stage", ZeroDivisionError("a mistake"), times=1)  # whichever has its turn first
    operations = [await served(process, number) for number in numbers]
    poisoned, good = sorted(operations, key=lambda each: each.progress.forwarded)
    assert (poisoned.state, poisoned.progress.forwarded) == (OperationState.PAUSED, 0)
    assert (good.state, good.progress.forwarded) == (OperationState.COMPLETED, 2)


async def test_a_lane_that_does_not_work_is_tried_again_ever_more_rarely(site):
    """D4: a mistake that is no operation's fault is told, and waits; other lanes go on."""
    process = await site.open()
    await process.fail(1)
    operation = await process.recovery.recover("status:unresolved")
    process.fails("ledger.next_batch", ZeroDivisionError("a mistake"), times=4)
    operation = await served(process, operation.number)
    assert (operation.state.word, operation.progress.forwarded) == ("completed", 1)
    told = [each for each in process.events if isinstance(each, RecoveryFault)]
    assert [(each.doing, each.exception_type) for each in told] == 4 * [("lane/orders", "ZeroDivisionError")]


async def test_work_that_cannot_be_looked_for_is_looked_for_again(site):
    """D4: the same for the list of what there is to do."""
    process = await site.open()
    await process.fail(1)
    operation = await process.recovery.recover("status:unresolved")
    process.fails("ledger.work", ValueError("99 is not a valid OperationState"), times=2)
    assert (await served(process, operation.number)).progress.forwarded == 1
