# SPDX-License-Identifier: MIT
"""What must hold for a pipeline when nothing moves any more, whatever has happened before.

Every item that was accepted is in one state for each destination; what has arrived is what is stored as sent; nothing
is left that belongs to nothing; every slot was served once; and ``stuck`` lists what does not move, and nothing else.
"""

from collections import Counter

from redrive.broker import dead_letter_queue
from redrive.clock import utc
from redrive.pipeline.states import ENDED_TASKS, ShipmentState, SlotState, TaskState
from tests.pipeline.crash_parts import NOT_OURS, TARGET

LAST_ACTIONS = ("process", "process_error", "batch", "batch_error", "batch_expired")
LAST_SENDS = ("send", "send_error", "send_unknown")


async def check_end(world):
    """Check everything."""
    tasks = {row["id"]: row for row in await world.rows("SELECT * FROM @.pipeline_tasks")}
    items = await world.rows("SELECT * FROM @.pipeline_items")
    shipments = {(row["task"], row["position"]): row for row in await world.rows("SELECT * FROM @.pipeline_shipments")}
    told = world.story()
    await _check_queues(world, tasks, told)
    _check_accepted(world, tasks, items, told)
    _check_conserved(world, tasks, items, shipments, told)
    _check_arrived(world, tasks, shipments, told)
    await _check_stored(world, shipments, tasks, told)
    await _check_orphans(world, tasks, items, shipments, told)
    await _check_history(world, tasks, told)
    await _check_slots(world, tasks, told)
    await _check_stuck(world, tasks, told)


async def _check_queues(world, tasks, told):
    """See that no message is left, but the dead ones of tasks that have failed."""
    failed = Counter()
    for task in tasks.values():
        if task["state"] == TaskState.FAILED and task["stage"] != "batch":
            failed[_queue_of(world, task)] += 1
    for info in await world.raw.inspect():
        if info.name in NOT_OURS:
            continue
        left = (info.ready, info.locked, info.scheduled, info.deferred)
        assert left == (0, 0, 0, 0), f"{info}\n{told}"
        assert info.dead >= failed[info.name], f"a task that failed has no dead letter: {info}, {failed}\n{told}"
        for dead in await world.raw.peek(dead_letter_queue(info.name), 1_000):
            assert dead.dead_letter_info.reason != "MaxDeliveryCountExceeded", f"{dead}\n{told}"


def _queue_of(world, task):
    return world.plan.process_queue if task["stage"] == "process" else world.plan.send_queue(task["destination"])


def _check_accepted(world, tasks, items, told):
    """See that each submission was stored once, and answered with its task."""
    begun = {id_ for id_, task in tasks.items() if task["stage"] == "process"}
    assert set(world.accepted) == set(world.submissions), told
    assert begun == set(world.accepted.values()), f"{begun}, {world.accepted}\n{told}"
    counted = Counter(item["task"] for item in items if item["parent_task"] is None)
    assert counted == {world.accepted[key]: len(body.split(b"\n")) for key, body in world.submissions.items()}, told


def _check_conserved(world, tasks, items, shipments, told):
    """See that each item is in one place for each destination: sent, refused, unknown, failed, expired or waiting."""
    begun = {item["item"] for item in items if item["parent_task"] is None}
    for name in world.plan.destinations:
        for id_ in begun:
            places = [item for item in items if item["item"] == id_ and tasks[item["task"]]["destination"] == name]
            ends = [
                item
                for item in places
                if tasks[item["task"]]["stage"] == "send" or tasks[item["task"]]["state"] != TaskState.DONE
            ]
            assert tasks[_origin(items, id_)]["state"] != TaskState.DONE or len(ends) == 1, (
                f"{id_} is {len(ends)} times at {name}: {ends}\n{told}"
            )
    for task in tasks.values():
        states = {row["state"] for (id_, _), row in shipments.items() if id_ == task["id"]}
        if task["stage"] == "send" and task["state"] == TaskState.DONE:
            assert states == {ShipmentState.SENT}, f"{task} is done, its shipments are {states}\n{told}"
        if task["state"] == TaskState.UNKNOWN:
            assert ShipmentState.UNKNOWN in states, f"{task}, {states}\n{told}"
            assert not states & {ShipmentState.PENDING, ShipmentState.INTENT}, f"{task}, {states}\n{told}"


def _origin(items, id_):
    return next(item["task"] for item in items if item["item"] == id_ and item["parent_task"] is None)


def _check_arrived(world, tasks, shipments, told):
    """See that what has arrived is what is stored as sent, and how often."""
    rows = {row["delivery_id"]: row for row in shipments.values()}
    assert set(world.arrived) <= set(rows), f"{set(world.arrived) - set(rows)} is not stored\n{told}"
    for id_, row in rows.items():
        times, state = world.arrived[id_], ShipmentState(row["state"])
        if tasks[row["task"]]["destination"] == "stored":
            continue
        if state is ShipmentState.SENT:
            assert times >= 1, f"{id_} is stored as sent, and has not arrived\n{told}"
        elif state is ShipmentState.INTENT:  # several processes have died at it, and nobody knows
            assert tasks[row["task"]]["state"] == TaskState.FAILED, f"{id_}\n{told}"
        elif state is not ShipmentState.UNKNOWN:
            assert times == 0, f"{id_} is stored as {state.word}, and has arrived\n{told}"
        if world.flavour != "repeats" and not world.is_racing:  # else each repetition was looked at when it came
            assert times <= 1, f"{id_} has arrived {times} times\n{told}"
        if world.flavour != "once":
            assert state is not ShipmentState.UNKNOWN, f"{id_} was left to a person\n{told}"


async def _check_stored(world, shipments, tasks, told):
    """See that what goes to a queue of the same broker is there once."""
    sent = [
        row["delivery_id"]
        for row in shipments.values()
        if tasks[row["task"]]["destination"] == "stored" and row["state"] == ShipmentState.SENT
    ]
    there = [each.id for each in await world.raw.peek(TARGET, 1_000)]
    assert sorted(there) == sorted(sent), f"{there}, {sent}\n{told}"


async def _check_orphans(world, tasks, items, shipments, told):
    """See that nothing belongs to nothing."""
    bodies = {row["id"] for row in await world.rows("SELECT id FROM @.pipeline_bodies")}
    used = {item["body"] for item in items} | {row["body"] for row in shipments.values()}
    assert bodies == used, f"bodies of nothing {bodies - used}, nothing of bodies {used - bodies}\n{told}"
    places = {(item["task"], item["position"]) for item in items}
    for item in items:
        assert item["task"] in tasks, f"{item} has no task\n{told}"
        parent = item["parent_task"], item["parent_position"]
        assert parent == (None, None) or parent in places, f"{item} has no parent\n{told}"
        shipment = item["shipment"]
        assert shipment is None or (item["task"], shipment) in shipments, f"{item} has no shipment\n{told}"
    assert {task for task, _ in shipments} <= set(tasks), told


async def _check_history(world, tasks, told):
    """See that each task has its history, and came to its end once."""
    rows = await world.rows("SELECT task, name FROM @.pipeline_actions WHERE task <> ''")
    assert {row["task"] for row in rows} == set(tasks), f"{set(tasks) ^ {row['task'] for row in rows}}\n{told}"
    ends = Counter(row["task"] for row in rows if row["name"] in (*LAST_ACTIONS, *LAST_SENDS))
    assert all(ends[id_] == 1 for id_ in tasks) or world.is_changed, f"{ends}\n{told}"
    received = Counter(row["task"] for row in rows if row["name"] == "receive")
    assert set(received.values()) == {1}, told


async def _check_slots(world, tasks, told):
    """See that each slot was served once, and that one a day at most was empty."""
    slots = await world.rows("SELECT * FROM @.pipeline_slots")
    assert all(slot["state"] != SlotState.OPEN for slot in slots), f"{slots}\n{told}"
    batched = Counter(task["slot_at"] for task in tasks.values() if task["slot_at"] is not None)
    for slot in slots:
        is_served = slot["state"] == SlotState.SERVED and (slot["tasks"] or slot["is_empty"])
        assert batched[slot["at"]] == int(bool(is_served)), f"{slot}: {batched}\n{told}"
        assert slot["closed_by"] != "time" or slot["at"] % world.slot_s == 0, f"{slot}\n{told}"
    assert sum(batched.values()) == sum(batched[slot["at"]] for slot in slots), f"{batched}\n{told}"
    days = Counter((slot["destination"], utc(slot["at"]).date()) for slot in slots if slot["is_empty"])
    assert all(count == 1 for count in days.values()), f"{days}\n{told}"
    done = sum(task["stage"] == "batch" and task["state"] == TaskState.DONE for task in tasks.values())
    assert done == sum(slot["tasks"] for slot in slots), f"{done} tasks, {slots}\n{told}"


async def _check_stuck(world, tasks, told):
    """See that ``stuck`` lists what does not move, and nothing else."""
    stuck = {each.id for each in await world.pipeline.stuck(overdue=0.001, limit=1_000)}
    assert stuck == {id_ for id_, task in tasks.items() if task["state"] not in ENDED_TASKS}, f"{stuck}\n{told}"
