# SPDX-License-Identifier: MIT
"""The checks of ``crash_checks`` are checked: with a part of the code taken out, a crash must turn each of them red."""

import re
from dataclasses import replace

import pytest

from redrive.engines.sql.pipeline import sends, slots, tasks
from redrive.engines.sql.pipeline.ledger import SqlPipelineLedger
from redrive.engines.sql.script import Guarded, Keyed, Sql
from redrive.engines.sql.verbs import joins, writes
from redrive.pipeline import intake
from redrive.pipeline.batch_stage import BatchStage
from tests.crash.harness import Mishap
from tests.pipeline.test_crashes import new_world


def without(script, pattern):
    """Return a script that leaves statements out that a pattern is found in."""

    def cut(*values, **more):
        running = script(*values, **more)
        answer = None
        while True:
            try:
                step = next(running) if answer is None else running.send(answer)
            except StopIteration as end:
                return end.value
            is_out = isinstance(step, Sql | Keyed) and re.search(pattern, step.text)
            answer = () if is_out else (yield step)

    return cut


def changed(script, old, new):
    """Return a script with another text in its statements."""

    def other(*values, **more):
        running = script(*values, **more)
        answer = None
        while True:
            try:
                step = next(running) if answer is None else running.send(answer)
            except StopIteration as end:
                return end.value
            if isinstance(step, Sql | Keyed):
                step = replace(step, text=step.text.replace(old, new))
            if isinstance(step, Guarded):
                step = replace(
                    step,
                    changes=[
                        (replace(change, text=change.text.replace(old, new)), values) for change, values in step.changes
                    ],
                )
            answer = yield step

    return other


def no_intent(monkeypatch):
    """Do not note that shipments are about to be sent."""
    verb = writes(without(sends.begin_send, "UPDATE @.pipeline_shipments"))
    monkeypatch.setattr(SqlPipelineLedger, "begin_send", verb)
    storing = changed(sends.finish_send, "WHERE s.state = 2 RETURNING", "WHERE s.state IN (1, 2, 5) RETURNING")
    monkeypatch.setattr(SqlPipelineLedger, "finish_send", joins(storing))
    away = changed(sends.put_back, "AND state = 2 RETURNING", "AND state IN (1, 2, 5) RETURNING")
    monkeypatch.setattr(SqlPipelineLedger, "put_back", joins(away))


def no_put_back(monkeypatch):
    """Forget what was sent before a destination was away."""
    monkeypatch.setattr(SqlPipelineLedger, "put_back", joins(lambda *_: iter(())))


def no_key(monkeypatch):
    """Accept a submission again."""

    async def unseen(*_):
        return None

    monkeypatch.setattr(SqlPipelineLedger, "submission", unseen)
    accept = tasks.accept
    monkeypatch.setattr(SqlPipelineLedger, "accept", joins(lambda task, _key, *more: accept(task, None, *more)))


def no_message(monkeypatch):
    """Store a submission, and send its message afterwards."""
    applied = intake.Send

    class Later(applied):
        def __new__(cls, _queue, message):
            return applied("laboratory", message)

    monkeypatch.setattr(intake, "Send", Later)


def no_end_of_members(monkeypatch):
    """Serve a slot, and let what was in it wait for the next one."""
    monkeypatch.setattr(SqlPipelineLedger, "serve_slot", joins(without(slots.serve_slot, "id IN @texts")))
    monkeypatch.setattr(slots, "_end_members", lambda *_: iter(()))


def no_slot_state(monkeypatch):
    """Serve a slot that was served."""

    async def is_open(*_):
        return True

    monkeypatch.setattr(SqlPipelineLedger, "is_open", is_open)
    monkeypatch.setattr(BatchStage, "_fail", lambda *_: is_open())
    monkeypatch.setattr(slots, "_end_slot", lambda *_, **__: iter(()))


MOST_PLACES = 4

CONTROLS = {
    # what is taken out, after which call a process dies, if one does, with which destinations, and what is said of it
    no_intent: ("send", "once", "delivered .* again"),
    no_put_back: (None, "repeats", "delivered .* again"),
    no_key: ("accept", "drops", "'s0': "),
    no_message: ("accept", "drops", "it does not end"),
    no_end_of_members: ("serve_slot", "drops", "it does not end"),
    no_slot_state: ("serve_slot", "drops", "it does not end"),
}


@pytest.mark.parametrize("control", CONTROLS, ids=lambda each: each.__name__)
async def test_a_crash_shows_what_is_missing(control, monkeypatch):
    verb, flavour, said = CONTROLS[control]
    async with new_world(flavour) as world:
        await world.live()
        calls = world.processes[0].calls
    control(monkeypatch)
    places = [0] if verb is None else [nth for nth, call in enumerate(calls, 1) if call == verb]
    for nth in places[:MOST_PLACES]:  # after the first of these calls, there may be nothing yet that could be missing
        try:
            async with new_world(flavour) as world:
                world.most_s = 60.0
                await lived(world, Mishap(nth, "after"))
        except AssertionError as error:
            assert re.search(said, str(error))  # noqa: PT017 - one of several places
            return
    pytest.fail("no crash shows it")


async def lived(world, mishap):
    await world.live(mishap)
    await world.check()
