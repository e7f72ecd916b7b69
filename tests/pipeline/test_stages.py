# SPDX-License-Identifier: MIT
"""What becomes of a submission in each stage, when all goes well and when it does not."""

import asyncio
import socket

import pytest

import redrive
from redrive.broker import Message
from redrive.errors import (
    DestinationConflict,
    DestinationNotFound,
    InvalidMessage,
    InvalidSetting,
    MessageTooLarge,
    SubmissionConflict,
    SubmissionRefused,
    TaskConflict,
)
from redrive.pipeline import (
    DestinationAway,
    Every,
    Limits,
    OutcomeUnknown,
    Output,
    PipelineDestination,
    PipelineRunner,
    ShipmentDelayed,
    ShipmentRefused,
    ShipmentSent,
    TaskState,
)
from tests.pipeline.pipeline_bench import ScriptedTransport, joined, pipeline

ARRIVED, ATTEMPTS, SCRIPT = ScriptedTransport.arrived, ScriptedTransport.attempts, ScriptedTransport.script
HOURS = [600, 3_600, 14_400, 43_200]


def bodies(name):
    return [body for _, body in ARRIVED[name]]


# --- receiving


async def test_a_submission_is_accepted_once_for_each_key(bench):
    reports = await bench.start(pipeline("now"))
    first = await reports.submit(b"a", key="k")
    again = await reports.submit(b"a", key="k")
    assert (first.is_new, again.is_new, again.task) == (True, False, first.task)
    with pytest.raises(SubmissionConflict, match="own key"):
        await reports.submit(b"b", key="k")
    await bench.settled()
    assert bodies("now") == [b"a"]


async def test_what_the_receive_function_refuses_leaves_nothing(bench):
    def refuse(_submission):
        raise SubmissionRefused("no patient", status=422)

    reports = await bench.start(pipeline("now", receive=refuse))
    with pytest.raises(SubmissionRefused, match="no patient"):
        await reports.submit(b"a", key="k")
    assert await reports.tasks() == []


async def test_what_cannot_be_taken_is_refused_with_the_fix(bench):
    pipe = pipeline("now")
    pipe._settings.update(max_bytes=3, needs_key=True)
    reports = await bench.start(pipe)
    with pytest.raises(MessageTooLarge):
        await reports.submit(b"abcd", key="k")
    with pytest.raises(InvalidMessage, match="key"):
        await reports.submit(b"a")
    with pytest.raises(InvalidMessage, match="255"):
        await reports.submit(b"a", key="k" * 256)


async def test_a_runner_whose_address_is_taken_says_so(bench):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        pipe = pipeline("now")
        pipe._settings["path"] = "/reports"
        reports = redrive.open_pipeline(bench.broker, pipe)
        async with reports:
            runner = PipelineRunner(reports, listen=f"127.0.0.1:{taken.getsockname()[1]}")
            running = asyncio.create_task(runner.run())
            while not running.done():
                bench.clock.advance(1)
                await asyncio.to_thread(bool)
            with pytest.raises(InvalidSetting, match="listen"):
                await running


# --- processing


async def test_every_item_goes_to_each_destination_by_itself(bench):
    reports = await bench.start(pipeline("one", "two"))
    receipt = await reports.submit(b"a\nb")
    await bench.settled()
    assert bodies("one") == bodies("two") == [b"a", b"b"]
    assert await bench.states() == {("process", ""): ["done"], ("send", "one"): ["done"], ("send", "two"): ["done"]}
    assert await bench.actions(receipt.task) == ["receive", "process"]
    assert await bench.actions((await bench.only("send", "one")).id) == ["send"]


async def test_a_process_function_that_fails_leaves_the_task_as_it_was_and_is_tried_again(bench):
    failures = [OSError("no table"), OSError("no table")]

    def route(report):
        if failures:
            raise failures.pop()
        yield Output("now", report.items)

    reports = await bench.start(pipeline("now", process=route))
    receipt = await reports.submit(b"a")
    before = (await reports.show(receipt.task)).task

    async def has_failed():
        return "process_warning" in await bench.actions(receipt.task)

    await bench.until(has_failed)
    assert (await reports.show(receipt.task)).task == before
    await bench.settled(step=1.0)
    assert bodies("now") == [b"a"]
    assert await bench.actions(receipt.task) == ["receive", "process_warning", "process_warning", "process"]


async def test_a_report_that_always_fails_is_poison_after_its_tries_and_runs_again_when_it_is_recovered(bench):
    broken = True

    def route(report):
        if broken:
            raise OSError("no table")
        yield Output("now", report.items)

    reports = await bench.start(pipeline("now", process=route))
    receipt = await reports.submit(b"a")
    await bench.settled(step=1.0)
    task = (await reports.show(receipt.task)).task
    assert (task.state, task.reason) == (TaskState.FAILED, "OSError: no table")
    assert await bench.actions(receipt.task) == ["receive", "process_warning", "process_warning", "process_error"]
    (dead,) = await bench.broker.peek("pipelines/reports/process/$dead")
    assert dead.dead_letter_info.reason == "MaxTries"
    assert [each.id for each in await reports.stuck()] == [receipt.task]
    broken = False
    assert await bench.broker.resubmit("pipelines/reports/process") == 1
    await bench.until(lambda: bodies("now") == [b"a"], step=1.0)
    await bench.settled()
    assert await reports.stuck() == []


async def test_each_failure_of_a_stage_is_one_line_in_the_log(bench, caplog):
    def route(report):
        if report.body == b"bad":
            raise OSError("no table")
        yield Output("now", report.items)

    reports = await bench.start(pipeline("now", process=route))
    SCRIPT["now"] = [ShipmentRefused("no such patient")]
    with caplog.at_level("WARNING", "redrive"):
        receipts = [await reports.submit(body) for body in (b"bad", b"a")]
        await bench.settled(step=1.0)
    sent = await bench.only("send", "now")
    said = [record.getMessage() for record in caplog.records]
    assert [sum(task in line for line in said) for task in (receipts[0].task, sent.id)] == [3, 1]
    assert len(said) == 4, said


async def test_a_permanent_error_is_poison_at_once(bench):
    def route(_report):
        raise ValueError("not HL7")

    pipe = pipeline("now", process=route)
    pipe._settings["final"] = (ValueError,)
    reports = await bench.start(pipe)
    receipt = await reports.submit(b"a")
    await bench.settled()
    assert await bench.actions(receipt.task) == ["receive", "process_error"]


@pytest.mark.parametrize("outputs", [["lab"], [Output("nowhere", ())], "text", 5])
async def test_outputs_that_make_no_sense_are_poison_at_once_with_the_reason(bench, outputs):
    reports = await bench.start(pipeline("now", process=lambda _report: outputs))
    receipt = await reports.submit(b"a")
    await bench.settled()
    assert (await reports.show(receipt.task)).task.state is TaskState.FAILED


async def test_a_message_for_a_task_that_is_done_is_dropped(bench):
    reports = await bench.start(pipeline("now"))
    receipt = await reports.submit(b"a")
    await bench.settled()
    await bench.broker.send("pipelines/reports/process", Message.of({"task": receipt.task}))
    task = await bench.only("send", "now")
    await bench.broker.send("pipelines/reports/send/now", Message.of({"task": task.id}))

    async def is_empty():
        queues = [await bench.broker.inspect(name) for name in reports.plan.queues]
        return not any(queue.ready + queue.locked for queue in queues)

    await bench.until(is_empty)
    assert len(ATTEMPTS["now"]) == 1


# --- sending


async def test_only_items_that_failed_are_sent_again_and_exactly_when_the_schedule_says(bench):
    reports = await bench.start(pipeline("now"))
    SCRIPT["now"] = [ShipmentSent(), ShipmentDelayed("busy"), ShipmentSent(), ShipmentDelayed("busy")]
    await reports.submit(b"a\nb\nc")
    await bench.until(lambda: len(ATTEMPTS["now"]) == 3)

    async def warned():
        return (await bench.only("send", "now")).retries == 1

    await bench.until(warned)
    task = await bench.only("send", "now")
    assert task.retry_items == (2,)
    assert task.due_at.timestamp() == bench.clock.time() + HOURS[0]
    bench.clock.advance(HOURS[0] - 1)
    for _ in range(20):
        await bench.until(lambda: True)
    assert len(ATTEMPTS["now"]) == 3
    bench.clock.advance(1)
    await bench.until(lambda: len(ATTEMPTS["now"]) == 4, step=1.0)
    await bench.settled(step=60.0)
    assert [body for _, body in ATTEMPTS["now"]] == [b"a", b"b", b"c", b"b", b"b"]
    assert bodies("now") == [b"a", b"c", b"b"]
    assert await bench.actions(task.id) == ["send_warning", "send_warning", "send"]


async def test_after_the_last_retry_the_task_has_failed_and_only_what_failed_is_sent_when_it_is_recovered(bench):
    reports = await bench.start(pipeline("now"))
    SCRIPT["now"] = [ShipmentSent(), *[ShipmentDelayed("busy")] * 5]
    await reports.submit(b"a\nb")
    await bench.settled(step=600.0)
    task = await bench.only("send", "now")
    assert task.state is TaskState.FAILED
    assert await bench.actions(task.id) == [*["send_warning"] * 4, "send_error"]
    assert [each.state.word for each in (await reports.show(task.id)).shipments] == ["sent", "refused"]
    assert [each.id for each in await reports.stuck()] == [task.id]
    await reports.resend(task.id, actor="ann", reason="the lab is back")
    await bench.settled(step=1.0)
    assert bodies("now") == [b"a", b"b"]
    (resend,) = [each for each in (await reports.show(task.id)).history if each.name == "resend"]
    assert (resend.actor, resend.reason) == ("ann", "the lab is back")
    with pytest.raises(TaskConflict, match="--again"):
        await reports.resend(task.id)
    await reports.resend(task.id, which="all", again=True)
    await bench.settled()
    assert bodies("now") == [b"a", b"b", b"a", b"b"]


async def test_a_refused_item_fails_alone(bench):
    reports = await bench.start(pipeline("now"))
    SCRIPT["now"] = [ShipmentSent(), ShipmentRefused("no such patient"), ShipmentSent()]
    await reports.submit(b"a\nb\nc")
    await bench.settled()
    task = await bench.only("send", "now")
    assert (task.state, task.reason) == (TaskState.FAILED, "no such patient")
    assert bodies("now") == [b"a", b"c"]


async def test_a_destination_that_is_away_uses_up_no_attempt(bench):
    reports = await bench.start(pipeline("now", breaker_failures=3, probe_after=30))
    SCRIPT["now"] = [DestinationAway("connection refused")] * 20
    await reports.submit(b"a")
    await bench.until(lambda: len(bodies("now")) == 1, step=5.0)
    await bench.settled()
    task = await bench.only("send", "now")
    assert (task.retries, await bench.actions(task.id)) == (0, ["send"])
    assert len(ATTEMPTS["now"]) == 21


async def test_a_destination_gets_no_more_than_its_rate(bench):
    reports = await bench.start(pipeline("now", rate=0.1))
    for body in (b"a", b"b", b"c"):
        await reports.submit(body)
    began, seen = bench.clock.time(), []

    def arrived():
        if len(ATTEMPTS["now"]) > len(seen):
            seen.append(bench.clock.time() - began)
        return len(seen) == 3

    await bench.until(arrived, step=1.0)
    assert seen[1] >= 10
    assert seen[2] >= 20


# --- unknown outcomes


def with_transport(can, **settings):
    pipe = pipeline()
    pipe._settings["process"] = lambda report: [Output("now", report.items)]
    pipe.destination("now", ScriptedTransport("now", can=can), jitter=0, **settings)
    return pipe


@pytest.mark.parametrize("arrives", [True, False])
async def test_what_may_have_arrived_is_looked_for_before_it_is_sent_again(bench, arrives):
    reports = await bench.start(with_transport("probe"))
    SCRIPT["now"] = [(OutcomeUnknown("reset"), arrives)]
    await reports.submit(b"a")
    await bench.settled(step=60.0)
    assert len(ScriptedTransport.probes["now"]) == 1
    assert (len(ATTEMPTS["now"]), bodies("now")) == (1 if arrives else 2, [b"a"])


async def test_what_may_have_arrived_is_sent_again_with_the_same_id_if_the_destination_drops_it(bench):
    reports = await bench.start(with_transport("dedup"))
    SCRIPT["now"] = [(ConnectionResetError("gone"), True)]
    await reports.submit(b"a")
    await bench.settled(step=60.0)
    assert len({key for key, _ in ATTEMPTS["now"]}) == 1
    assert (len(ATTEMPTS["now"]), bodies("now")) == (2, [b"a"])


async def test_what_may_have_arrived_is_left_to_a_person_if_it_must_not_arrive_twice(bench):
    reports = await bench.start(with_transport("nothing", guarantee="at_most_once"))
    SCRIPT["now"] = [OutcomeUnknown("reset"), (OutcomeUnknown("reset"), True)]
    await reports.submit(b"a\nb")
    await bench.settled(step=60.0)
    task = await bench.only("send", "now")
    assert (task.state, len(ATTEMPTS["now"])) == (TaskState.UNKNOWN, 2)
    assert [each.id for each in await reports.stuck()] == [task.id]
    assert (await reports.resolve(task.id, [2], arrived=True, actor="ann")).state is TaskState.UNKNOWN
    await reports.resolve(task.id, [1], arrived=False, actor="ann")
    await bench.settled()
    assert [body for _, body in ATTEMPTS["now"]] == [b"a", b"b", b"a"]
    assert (await bench.only("send", "now")).state is TaskState.DONE


# --- batching


def batched(**settings):
    return pipeline("lab", timing=Every(3_600), merge=joined, **settings)


async def test_what_waits_for_a_slot_is_merged_and_sent_once(bench):
    reports = await bench.start(batched())
    await reports.submit(b"a\nb")
    await reports.submit(b"c")
    await bench.until(lambda: len(ATTEMPTS["lab"]) == 1, step=60.0)
    await bench.settled()
    assert bodies("lab") == [b"a|b|c"]
    slots = await reports.slots("reports", "lab")
    assert [slot.tasks for slot in slots if slot.tasks] == [2]
    assert await bench.states() == {
        ("process", ""): ["done", "done"],
        ("batch", "lab"): ["done", "done"],
        ("send", "lab"): ["done"],
    }


async def test_a_batch_is_closed_early_when_it_is_large(bench):
    reports = await bench.start(batched(limits=Limits(max_items=3)))
    await reports.submit(b"a\nb")
    await reports.submit(b"c")
    await bench.until(lambda: bodies("lab") == [b"a|b|c"], step=1.0)
    await bench.settled()
    assert "size" in [slot.closed_by for slot in await reports.slots("reports", "lab")]


async def test_a_task_that_breaks_the_merge_fails_alone(bench):
    reports = await bench.start(batched())
    for body in (b"a", b"bad", b"c", b"d"):
        await reports.submit(body)
    await bench.until(lambda: len(ATTEMPTS["lab"]) == 1, step=60.0)
    await bench.settled()
    assert bodies("lab") == [b"a|c|d"]
    assert (await bench.states())["batch", "lab"] == ["done", "done", "done", "failed"]
    (failed,) = await reports.tasks(states=(TaskState.FAILED,))
    assert failed.reason == "ValueError: bad item"


async def test_a_merge_that_always_fails_leaves_everything_for_the_next_slot_until_the_backstop(bench):
    reports = await bench.start(batched())
    await reports.submit(b"bad")
    await reports.submit(b"bad")

    async def has_failed():
        return [slot.state.word for slot in await reports.slots("reports", "lab")].count("failed") >= 2

    await bench.until(has_failed, step=600.0)
    assert (await bench.states())["batch", "lab"] == ["waiting", "waiting"]

    async def has_expired():
        return (await bench.states())["batch", "lab"] == ["expired", "expired"]

    await bench.until(has_expired, step=600.0)
    (task, _) = await reports.stuck()
    assert task.state is TaskState.EXPIRED
    revived = await reports.revive(task.id, actor="ann", reason="merge is mended")
    assert revived.state is TaskState.WAITING
    assert await bench.actions(task.id) == ["batch_expired", "revive"]


@pytest.mark.parametrize(("when_empty", "sent"), [("skip", 0), ("send", 3), ("send_once_per_day", 1)])
async def test_what_happens_in_an_empty_slot_is_a_choice(bench, when_empty, sent):
    reports = await bench.start(batched(when_empty=when_empty))

    async def has_passed():
        return len(await reports.slots("reports", "lab")) >= 3

    await bench.until(has_passed, step=60.0)
    await bench.until(lambda: len(ATTEMPTS["lab"]) >= sent)
    await bench.settled()
    assert set(bodies("lab")) <= {b""}
    assert len(bodies("lab")) in (sent, sent + (when_empty == "send"))


async def test_a_destination_that_lost_its_timing_does_not_strand_what_waits(bench):
    reports = await bench.start(batched())
    await reports.submit(b"a")

    async def waits():
        return (await bench.states()).get(("batch", "lab")) == ["waiting"]

    await bench.until(waits)
    await reports.change(PipelineDestination(name="lab", transport=ScriptedTransport("lab"), merge=joined))
    await bench.until(lambda: bodies("lab") == [b"a"], step=60.0)


# --- people


async def test_a_held_destination_gets_nothing_until_it_is_released(bench):
    reports = await bench.start(pipeline("one", "two"))
    await reports.hold("reports", "one", actor="ann", reason="they move")
    await bench.runner.reload()
    await reports.submit(b"a")
    await bench.until(lambda: bodies("two") == [b"a"])
    assert bodies("one") == []
    await reports.release("reports", "one", actor="ann")
    await bench.runner.reload()
    await bench.until(lambda: bodies("one") == [b"a"])
    assert [each.name for each in await reports.history("reports") if each.actor] == ["release", "hold"]


async def test_what_waits_for_a_slot_is_sent_when_a_person_wants_it_now(bench):
    reports = await bench.start(pipeline("one", timing=Every(86_400)))
    for body in (b"a", b"b"):
        await reports.submit(body)
    await bench.until(lambda: waiting(reports, 2))
    assert bodies("one") == []
    assert await reports.send_now("reports", "one", actor="ann", reason="they ask for it") == 2
    with pytest.raises(DestinationConflict, match="is being served"):
        await reports.send_now("reports", "one")
    await bench.until(lambda: len(bodies("one")) == 2)
    (slot,) = await reports.slots("reports", "one")
    assert (slot.closed_by, slot.tasks) == ("person", 2)
    (noted,) = [each for each in await reports.history("reports") if each.actor]
    assert (noted.name, noted.actor, noted.reason) == ("send-now", "ann", "they ask for it")
    with pytest.raises(DestinationConflict, match="nothing waits"):
        await reports.send_now("reports", "one")
    await reports.hold("reports", "one")
    with pytest.raises(DestinationConflict, match="release it first"):
        await reports.send_now("reports", "one")
    with pytest.raises(DestinationNotFound, match="it has: one"):
        await reports.send_now("reports", "two")


async def waiting(reports, count):
    return len(await reports.tasks("reports", states=[TaskState.WAITING])) == count


async def test_a_cancelled_task_is_never_sent(bench):
    reports = await bench.start(pipeline("now"))
    SCRIPT["now"] = [ShipmentDelayed("busy")]
    await reports.submit(b"a")

    async def warned():
        return [task.retries for task in await reports.tasks(destination="now")] == [1]

    await bench.until(warned)
    task = await bench.only("send", "now")
    await reports.cancel(task.id, actor="ann", reason="wrong file")
    bench.clock.advance(HOURS[0])
    await bench.settled(step=60.0)
    assert len(ATTEMPTS["now"]) == 1
    with pytest.raises(TaskConflict):
        await reports.cancel(task.id)


async def test_an_item_is_traced_forward_and_back(bench):
    reports = await bench.start(batched())
    receipt = await reports.submit(b"a\nb")
    await bench.until(lambda: len(ATTEMPTS["lab"]) == 1, step=60.0)
    await bench.settled()
    send = await bench.only("send", "lab")
    forward = await reports.trace(f"{receipt.task}.2")
    assert [task.stage for task in forward.tasks] == ["process", "batch", "send"]
    assert forward.edges[-1].shipment == 1
    back = await reports.trace(send.id)
    assert {task.id for task in back.tasks} == {task.id for task in forward.tasks}


async def test_what_has_ended_long_ago_is_removed_with_everything_of_it(bench):
    reports = await bench.start(pipeline("now"))
    await reports.submit(b"a\nb", key="k")
    await bench.settled()
    assert await reports.prune(bench.clock.time() - 1) == 0
    assert await reports.prune(bench.clock.time() + 1) == 2
    assert (await reports.tasks(), await reports.history()) == ([], [])
    assert (await reports.submit(b"a\nb", key="k")).is_new


async def test_old_slots_are_removed_and_the_next_ones_come_all_the_same(bench):
    reports = await bench.start(batched())

    async def served(count=2):
        return [slot.state.word for slot in await reports.slots("reports", "lab")].count("served") >= count

    await bench.until(served, step=60.0)
    await reports.hold("reports", "lab", reason="they move")
    await reports.release("reports", "lab")
    bench.clock.advance(1)
    await reports.prune(bench.clock.time())
    assert (await reports.slots("reports", "lab"), await reports.history("reports")) == ([], [])
    await reports.submit(b"a")
    await bench.until(lambda: bodies("lab") == [b"a"], step=60.0)
    assert await served(1)
