# SPDX-License-Identifier: MIT
"""The ledger of pipelines of an engine that is a database: each verb is a script."""

from redrive.engines.sql.pipeline import operators, queries, sends
from redrive.engines.sql.pipeline import slots as slots_sql
from redrive.engines.sql.pipeline import tasks as tasks_sql
from redrive.engines.sql.verbs import SqlStore, joins, reads, writes
from redrive.pipeline import TaskToken
from redrive.pipeline.records import SendWork


class SqlPipelineLedger(SqlStore):
    """Tasks, their history, slots and shipments in a database."""

    # --- pipelines and destinations
    declare = writes(slots_sql.declare)
    versions = reads(slots_sql.versions)
    pipelines = reads(slots_sql.pipelines)
    destinations = reads(slots_sql.destinations)
    hold = writes(slots_sql.hold)

    # --- receiving and processing
    accept = joins(tasks_sql.accept, together=True)
    submission = reads(tasks_sql.submission)
    process_input = reads(tasks_sql.process_input, together=True)
    finish_process = joins(tasks_sql.finish_process, together=True)
    warn = joins(tasks_sql.warn)
    fail = joins(tasks_sql.fail)

    # --- slots
    open_slot = joins(slots_sql.open_slot)
    open_now = joins(slots_sql.open_now)
    slots = reads(slots_sql.slots)
    is_open = reads(slots_sql.is_open)
    waiting = reads(slots_sql.waiting)
    serve_slot = joins(slots_sql.serve_slot)
    fail_slot = joins(slots_sql.fail_slot)
    expire = writes(slots_sql.expire)

    # --- sending
    _to_send = reads(sends.to_send, together=True)
    _begin = writes(sends.begin, together=True)
    _begin_send_in_turn = writes(sends.begin_send)
    finish_send = joins(sends.finish_send, together=True)
    put_back = joins(sends.put_back)
    shipments = reads(sends.shipments)

    async def begin_send(self, token: TaskToken, per_second: float | None, version: int) -> SendWork | None:
        """Note that the shipments of a task are about to be sent; where there is a rate, one task after another."""
        if per_second is None:
            work = await self._to_send(token)
            if work is not None and sends.is_usual(work, version) and await self._begin(token, work):
                return work
        return await self._begin_send_in_turn(token, per_second, version)

    # --- people
    rerun = joins(operators.rerun)
    revive = writes(operators.revive)
    cancel = writes(operators.cancel)
    resolve_sent = writes(operators.resolve_sent)
    prune = writes(operators.prune)

    # --- questions
    task = reads(tasks_sql.task)
    tasks = reads(queries.tasks)
    stuck = reads(queries.stuck)
    counts = reads(queries.counts)
    history = reads(queries.history)
    lineage = reads(queries.lineage)
