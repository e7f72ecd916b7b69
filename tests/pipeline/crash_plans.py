# SPDX-License-Identifier: MIT
"""Small pipelines for the crashes that have a test of their own: one destination each."""

from contextlib import asynccontextmanager

from redrive.pipeline import Every, Output, Pipeline, TaskState
from tests.pipeline.crash_parts import SLOT_S, WorldTransport, merge, split
from tests.pipeline.crash_world import PipelineWorld

BAD = "s1.a"
"""The item that breaks what it comes to."""


async def route_one(report):
    """Send everything to the only destination."""
    yield Output("one", report.items)


async def picky_merge(items):
    """Make one shipment, unless a certain item is there."""
    if any(item.body.decode() == BAD for item in items):
        raise ValueError("a bad item")
    return await merge(items)


def one(flavour="drops", process=route_one, **settings):
    """Return a pipeline that sends each item by itself."""
    pipe = Pipeline("reports", path="/reports")
    pipe.receive(split)
    pipe.process(retry=[2.0])(process)
    how = {"retry": (3.0, 3.0), "jitter": 0.0, "probe_after": 2.0, "breaker_failures": 50, **settings}
    if flavour == "once":
        how["guarantee"] = "at_most_once"
    pipe.destination("one", WorldTransport("one", flavour), **how)
    return pipe.plan


def batched(flavour="drops", merging=merge, **settings):
    """Return a pipeline that sends a batch in each slot."""
    return one(flavour, timing=Every(SLOT_S), merge=merging, **settings)


@asynccontextmanager
async def new_world(plan=None, flavour="drops", *, seed=0, home=None, submissions=2):
    """Make a world."""
    world = PipelineWorld(flavour, seed=seed, home=home, plan=plan, submissions=submissions)
    if plan is not None:
        for counter in (world.delaying, world.losing, world.away):
            counter.clear()
    await world.open()
    try:
        await world.prepare()
        yield world
    finally:
        await world.close()


async def tasks_of(world, *, stage="send"):
    """Return the tasks of a stage, in the order in which they were made."""
    found = await world.pipeline.tasks(limit=1_000, states=tuple(TaskState))
    return [each for each in reversed(found) if each.stage == stage]


async def only_task(world, *, stage="send"):
    """Return the only task of a stage."""
    (found,) = await tasks_of(world, stage=stage)
    return found


def words(shipments):
    """Return the states of shipments."""
    return [each.state.word for each in shipments]
