# SPDX-License-Identifier: MIT
"""The ledger of an engine that is a database: each verb is a script."""

import secrets
from collections.abc import Sequence

from redrive.broker.port import Complete, Database
from redrive.engines.sql.recovery import audit as audit_sql
from redrive.engines.sql.recovery import (
    batches,
    counts,
    failure_records,
    failures,
    group_states,
    keys,
    kinds,
    leases,
    lockless_reads,
    operation_work,
    search,
    set_asides,
)
from redrive.engines.sql.recovery import operations as operations_sql
from redrive.engines.sql.verbs import SqlStore, joins, reads, writes
from redrive.recovery.port import KEY_BYTES, Arrival, Recorded


class SqlLedger(SqlStore):
    """Failed messages and operations in a database.

    Args:
        database: the database.
        is_shared: whether its owner opens and closes it.
        is_with_queues: whether the queues that failures are read from are in it, too.
    """

    _key: bytes | None = None

    def __init__(self, database: Database, *, is_shared: bool = False, is_with_queues: bool = False) -> None:
        super().__init__(database, is_shared=is_shared)
        self.is_with_queues = is_with_queues

    async def key(self) -> bytes:
        """Return the key that seals tags; the first call creates it."""
        if self._key is None:
            self._key = await self._kept_key(secrets.token_bytes(KEY_BYTES))
        return self._key

    _kept_key = writes(keys.key)

    # --- failed messages
    async def record(self, arrivals: Sequence[Arrival], *, completing: Sequence[Complete] = ()) -> list[Recorded]:
        """Record failures; say for each to which failed message it belongs, and whether it was new."""
        if not completing:
            return await self._record(arrivals)
        recorded: list[Recorded] = []
        await self.database.apply_inside(completing, self._recording(arrivals, recorded))
        return recorded

    _record = writes(failure_records.record)
    _recording = joins(failure_records.recording, together=True)
    record_unlocked = writes(lockless_reads.record_unlocked, together=True)
    begin_reading = writes(lockless_reads.begin_reading)
    end_reading = writes(lockless_reads.end_reading)
    confirm = writes(failure_records.confirm)
    find = reads(failures.find)
    newest_in_groups = reads(failures.newest_in_groups)
    search = reads(search.search)
    sources = reads(failures.sources_seen)
    show = reads(failures.show)
    sweep = writes(failures.sweep)
    count = reads(counts.count)
    count_by_status = reads(counts.count_by_status)
    groups = reads(counts.groups)
    kind_values = reads(kinds.kind_values)
    check_counts = reads(counts.check_counts)
    repair_counts = writes(counts.repair_counts)
    set_aside = writes(set_asides.set_aside)
    aside = reads(set_asides.aside)
    drop_aside = writes(set_asides.drop_aside)

    # --- groups, notes and the audit trail
    group_state = reads(group_states.group_state)
    set_group_state = writes(group_states.set_group_state)
    note = writes(audit_sql.note)
    notes = reads(audit_sql.notes)
    drop_note = writes(audit_sql.drop_note)
    audit = writes(audit_sql.audit)
    trail = reads(audit_sql.trail)

    # --- operations
    request = writes(operations_sql.request)
    requested = reads(operations_sql.requested)
    dry_run = reads(operations_sql.dry_run)
    operation = reads(operations_sql.operation)
    change = writes(operations_sql.change)
    set_rate = writes(operations_sql.set_rate)
    parts = reads(operations_sql.parts)
    acknowledge = writes(operations_sql.acknowledge)
    redirects = reads(operations_sql.redirects)
    redirect = writes(operations_sql.redirect)
    operations = reads(operations_sql.operations)
    ended_since = reads(operations_sql.ended_since)

    # --- processes and leases
    hold = writes(leases.hold)
    renew = writes(leases.renew)
    release = writes(leases.release)
    present = writes(leases.present)
    absent = writes(leases.absent)
    services = reads(leases.services)

    # --- marking
    work = reads(operation_work.work)
    mark = writes(operation_work.mark)
    claim = writes(operation_work.claim)
    canaries = reads(operation_work.canaries)
    advance = writes(operations_sql.advance)
    settle = writes(operation_work.settle)

    # --- staging and forwarding
    next_batch = reads(batches.next_batch)
    to_stage = reads(batches.to_stage)
    staged = writes(batches.staged)
    pending = reads(batches.pending)
    latest = reads(batches.latest)
    reserve = writes(batches.reserve)
    forwarded = writes(batches.forwarded)
    doubt = writes(batches.doubt)
    eject = writes(batches.eject)
    unstage = writes(batches.unstage)
    finish = writes(batches.finish)
    count_strays = writes(batches.count_strays)
    lanes = reads(batches.lanes)
