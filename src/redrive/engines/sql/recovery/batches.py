# SPDX-License-Identifier: MIT
"""Batches in SQL, from staging to their end, and their lanes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from redrive.broker import tallies
from redrive.engines import stored
from redrive.engines.sql.history.failure_tallies import count_in_lanes
from redrive.engines.sql.recovery.failure_records import next_change
from redrive.engines.sql.recovery.leases import check
from redrive.engines.sql.recovery.operations import end_if_done
from redrive.engines.sql.recovery.state_sql import among, transition
from redrive.engines.sql.script import Many, Script, Sql, now, scalar, scalars
from redrive.recovery.port import (
    AT_WORK,
    BATCHES,
    FIRST_BATCH_STATE,
    MESSAGES,
    PARTS,
    Batch,
    BatchEvent,
    BatchState,
    FailureEvent,
    LaneInfo,
    Lease,
    OperationState,
    Outcome,
    PartEvent,
    Plan,
    Staged,
    Status,
    edited_id,
    storable,
)

_LARGEST_PAGE_BYTES = 16 * 1_048_576
"""The largest page of messages in bytes, unless a single message is larger."""

_NO_COPY = "there was nothing to send: its content is gone, or it was restored after its turn"
_CANCELLED = "the operation was cancelled"
_IS_PENDING = among("outcome", [Outcome.PENDING])
_STAGE, _FORWARD = transition(MESSAGES, FailureEvent.STAGE), transition(BATCHES, BatchEvent.STAGE)
_ADD_REASON = "reason = ? || CASE reason WHEN '' THEN '' ELSE '; it ' || reason END"
"""The reason of an outcome, followed by an earlier doubt."""

_WAITING = f"b.lane = ? AND {among('b.state', [BatchState.STAGING])}"
_NEXT = (  # the operation that was served least, then its first batch: a lane may have thousands waiting
    f"SELECT min(b.number) FROM @.batches b WHERE {_WAITING} AND b.operation = (SELECT o.number FROM @.operations o"
    f" WHERE {among('o.state', (*AT_WORK, OperationState.CANCELLING))}"
    f" AND EXISTS (SELECT 1 FROM @.batches b WHERE {_WAITING} AND b.operation = o.number)"
    " ORDER BY o.served, o.number LIMIT 1)"
)
_BATCH = (
    "SELECT b.number, b.operation, o.plan, b.state, o.state AS operation_state, b.staging_id,"
    " coalesce(l.next_at, 0) AS next_at FROM @.batches b JOIN @.operations o ON o.number = b.operation"
    " LEFT JOIN @.lanes l ON l.name = b.lane WHERE b.lane = ?"
)


def next_batch(lease: Lease, lane: str) -> Script[Batch | None]:
    """Return the batch that a lane is forwarding, or else the next one to be staged."""
    yield from check(lease, lock="")
    is_forwarding = among("b.state", [BatchState.FORWARDING])
    rows = yield Sql(f"{_BATCH} AND {is_forwarding} AND b.number = l.batch", [lane])
    if not rows:  # there is none, or the lane points at a batch that is gone
        rows = yield Sql(f"{_BATCH} AND b.number = ({_NEXT})", [lane, lane, lane])
    if not rows:
        return None
    row = rows[0]
    return Batch(
        number=row["number"],
        operation=row["operation"],
        plan=Plan.from_json(json.loads(row["plan"])),
        state=BatchState(row["state"]),
        operation_state=OperationState(row["operation_state"]),
        lane=lane,
        staging_id=row["staging_id"],
        next_at=row["next_at"],
    )


def to_stage(batch: Batch, *, after: int = 0, limit: int = 200) -> Script[tuple[list[Staged], int | None]]:
    """Return messages of a batch that are still to be staged, as many as fit into memory, and after which to go on."""
    found = yield Sql(
        "SELECT p.failure, f.bytes, f.queue FROM @.parts p JOIN @.failures f ON f.number = p.failure"
        f" WHERE p.batch = ? AND {_IS_PENDING} AND p.failure > ? AND {_STAGE.able} ORDER BY p.failure LIMIT ?",
        [batch.number, after, limit + 1],
    )
    queues: dict[int, str] = {}
    room = _LARGEST_PAGE_BYTES
    for failure, size, queue in found[:limit]:
        if queues and size > room:
            break
        queues[failure] = queue
        room -= size
    rows = yield Sql(
        "SELECT number, id, message_id, properties, body FROM @.failure_contents WHERE number IN @ints ORDER BY number",
        [list(queues)],
    )
    page = [
        Staged(failure=number, id=id_, queue=queues[number], message=stored.message_of(message_id, properties, body))
        for number, id_, message_id, properties, body in rows
    ]
    return page, max(queues) if len(queues) < len(found) else None


def staged(lease: Lease, batch: Batch, copied: Mapping[str, int], refused: Mapping[int, str]) -> Script[set[int]]:
    """Move a batch to forwarding: statuses, staging id and the lane's pointer change together."""
    yield from check(lease)
    change = yield from next_change()
    yield from _leave(batch, refused, PartEvent.EJECT)
    claimed = yield from _claimed(batch)
    issued = yield from _issue(batch, claimed.intersection(copied.values()), change)
    uncopied = yield from _uncopied(claimed.difference(copied.values()))
    yield from _leave(batch, dict.fromkeys(uncopied, _NO_COPY), PartEvent.EJECT)
    yield from _skip(batch, claimed.difference(issued, uncopied))
    if batch.plan.is_edit:
        edited = [(edited_id(id_, batch.operation), number) for id_, number in copied.items() if number in issued]
        yield Many("UPDATE @.failures SET edited_as = ? WHERE number = ?", edited)
    yield Sql("UPDATE @.operations SET served = served + 1 WHERE number = ?", [batch.operation])
    if issued:
        yield from _forward(batch)
    else:
        yield from delete_batch(batch.number)
        yield from end_if_done(batch.operation)
    return issued


def _issue(batch: Batch, failures: set[int], change: int) -> Script[set[int]]:
    """Mark messages as retry-issued; return those whose status allowed that."""
    issue = (
        f"UPDATE @.failures SET {_STAGE.to}, settled_at = ?, change = ?, operation = ?"
        f" WHERE number IN @ints AND {_STAGE.able} RETURNING number"
    )
    values = [(yield from now()), change, batch.operation, sorted(failures)]
    return set((yield from scalars(Sql(issue, values))))


def _forward(batch: Batch) -> Script[None]:
    """Change a batch to forwarding, and let its lane point at it."""
    yield Sql(
        f"UPDATE @.batches SET {_FORWARD.to}, staging_id = ? WHERE number = ? AND {_FORWARD.able}",
        [batch.staging_id, batch.number],
    )
    yield Sql(
        "INSERT INTO @.lanes (name, batch, next_at) VALUES (?, ?, 0)"
        " ON CONFLICT (name) DO UPDATE SET batch = excluded.batch",
        [batch.lane, batch.number],
    )


def _uncopied(failures: set[int]) -> Script[list[int]]:
    """Return those of some messages that could still be sent, but have no copy."""
    if not failures:
        return []
    found = f"SELECT number FROM @.failures WHERE number IN @ints AND {_STAGE.able} ORDER BY number"
    return (yield from scalars(Sql(found, [sorted(failures)])))


def _claimed(batch: Batch) -> Script[set[int]]:
    """Return the messages of a batch that have no outcome yet."""
    found = f"SELECT failure FROM @.parts WHERE batch = ? AND {_IS_PENDING}"
    return set((yield from scalars(Sql(found, [batch.number]))))


def _skip(batch: Batch, failures: Iterable[int]) -> Script[None]:
    """Skip messages of a batch whose status has changed since they were claimed."""
    yield from _end_parts(batch, dict.fromkeys(sorted(failures), "its status has changed"), PartEvent.SKIP)


def _end_parts(batch: Batch, reasons: Mapping[int, str], event: PartEvent) -> Script[None]:
    """Note what became of messages of a batch, and why."""
    end = transition(PARTS, event)
    time = yield from now()
    yield Many(
        f"UPDATE @.parts SET {end.to}, at = ?, {_ADD_REASON} WHERE operation = ? AND failure = ? AND {end.able}",
        [(time, storable(reason), batch.operation, failure) for failure, reason in reasons.items()],
    )


def pending(batch: Batch) -> Script[set[int]]:
    """Return the numbers of the messages of a batch that are not done."""
    found = (
        "SELECT p.failure FROM @.parts p JOIN @.failures f ON f.number = p.failure"
        f" WHERE p.batch = ? AND {_IS_PENDING} AND {among('f.status', [Status.RETRY_ISSUED])}"
    )
    return set((yield from scalars(Sql(found, [batch.number]))))


def latest(lease: Lease, batch: Batch) -> Script[Batch]:
    """Return a batch with its operation's present plan and state, if the lease is still valid."""
    yield from check(lease, lock="")
    ((plan, state),) = yield Sql("SELECT plan, state FROM @.operations WHERE number = ?", [batch.operation])
    return replace(batch, plan=Plan.from_json(json.loads(plan)), operation_state=OperationState(state))


def _is_cancelled(batch: Batch) -> Script[bool]:
    state = yield from scalar(Sql("SELECT state FROM @.operations WHERE number = ?", [batch.operation]))
    return OperationState(state) is OperationState.CANCELLING


def reserve(lease: Lease, batch: Batch, next_at: float) -> Script[None]:
    """Note that a lane sends now, and not again before ``next_at``."""
    yield from check(lease)
    yield Sql("UPDATE @.lanes SET next_at = ? WHERE name = ?", [next_at, batch.lane])


def forwarded(lease: Lease, batch: Batch, numbers: Sequence[int], *, reason: str = "") -> Script[None]:
    """Note that messages have left for their destination."""
    yield from check(lease)
    yield from _note_forwarded(batch, numbers, reason)


def _note_forwarded(batch: Batch, failures: Sequence[int], reason: str) -> Script[None]:
    forward = transition(PARTS, PartEvent.FORWARD)
    assignment, values = (f", {_ADD_REASON}", [reason]) if reason else ("", [])
    sent = yield Sql(
        f"UPDATE @.parts SET {forward.to}, at = ?{assignment} WHERE operation = ? AND failure IN @ints"
        f" AND {forward.able} RETURNING failure",
        [(yield from now()), *values, batch.operation, list(failures)],
    )
    yield from count_in_lanes(tallies.SENT, [batch.lane] * len(sent))


def doubt(lease: Lease, batch: Batch, numbers: Sequence[int], reason: str) -> Script[None]:
    """Note a doubt about messages; it is added to the reason of their outcome."""
    yield from check(lease)
    yield Sql(
        f"UPDATE @.parts SET reason = ? WHERE operation = ? AND failure IN @ints AND {_IS_PENDING}",
        [reason, batch.operation, list(numbers)],
    )


def eject(lease: Lease, batch: Batch, reasons: Mapping[int, str]) -> Script[None]:
    """Note that messages could not be sent."""
    yield from check(lease)
    yield from next_change()
    yield from _leave(batch, reasons, PartEvent.EJECT)


def _leave(batch: Batch, reasons: Mapping[int, str], event: PartEvent) -> Script[None]:
    """Remove messages from a batch, with their reasons; they are unresolved again."""
    if reasons:
        yield from _end_parts(batch, reasons, event)
        yield from _revert(batch, list(reasons))


def _revert(batch: Batch, failures: list[int]) -> Script[None]:
    revert = transition(MESSAGES, FailureEvent.REVERT)
    change = yield from scalar(Sql("SELECT value FROM @.ledger_changes"))
    yield Sql(
        f"UPDATE @.failures SET {revert.to}, settled_at = NULL, edited_as = NULL, change = ?, operation = ?"
        f" WHERE number IN @ints AND {revert.able}",
        [change, batch.operation, failures],
    )


def unstage(lease: Lease, batch: Batch, numbers: Sequence[int]) -> Script[None]:
    """Take back messages that were staged and not sent, because their operation was paused or cancelled."""
    yield from check(lease)
    yield from next_change()
    if (yield from _is_cancelled(batch)):
        yield from _leave(batch, dict.fromkeys(numbers, _CANCELLED), PartEvent.CANCEL)
        return
    successor = yield from _successor(batch)
    yield Sql(
        f"UPDATE @.parts SET batch = ? WHERE operation = ? AND failure IN @ints AND {_IS_PENDING}",
        [successor, batch.operation, list(numbers)],
    )
    yield from _revert(batch, list(numbers))


def _successor(batch: Batch) -> Script[int]:
    """Return the batch for messages that this batch took back; a batch itself never goes backward."""
    ((known, is_canary),) = yield Sql(
        "SELECT successor, is_canary FROM @.batches WHERE number = ? @lock", [batch.number]
    )
    if known is not None:
        return int(known)
    state = int(FIRST_BATCH_STATE[BatchEvent.TAKE_BACK])
    made: int = yield from scalar(
        Sql(
            "INSERT INTO @.batches (operation, lane, state, session, is_canary) VALUES (?, ?, ?, '', ?)"
            " RETURNING number",
            [batch.operation, batch.lane, state, is_canary],
        )
    )
    yield Sql("UPDATE @.batches SET successor = ? WHERE number = ?", [made, batch.number])
    yield Sql("UPDATE @.operations SET batches = batches + 1 WHERE number = ?", [batch.operation])
    return made


def finish(lease: Lease, batch: Batch, forwarded: Sequence[int] = ()) -> Script[OperationState]:
    """Delete a batch: nothing of it is left to do, or its operation is being cancelled."""
    yield from check(lease)
    if forwarded:
        yield from _note_forwarded(batch, forwarded, "")
    yield from next_change()
    left = yield from _claimed(batch)
    if (yield from _is_cancelled(batch)):
        yield from _leave(batch, dict.fromkeys(left, _CANCELLED), PartEvent.CANCEL)
    else:
        yield from _skip(batch, left)
    yield from delete_batch(batch.number)
    return (yield from end_if_done(batch.operation))


def delete_batch(batch: int) -> Script[None]:
    """Delete a finished batch, and let its lane point at none."""
    finish = transition(BATCHES, BatchEvent.FINISH)
    yield Sql(f"DELETE FROM @.batches WHERE number = ? AND {finish.able}", [batch])
    yield Sql("UPDATE @.lanes SET batch = NULL WHERE batch = ?", [batch])


# --- lanes


def count_strays(lease: Lease, lane: str, strays: int) -> Script[None]:
    """Count copies that belonged to no batch, and were dropped."""
    yield from check(lease)
    yield Sql("UPDATE @.lanes SET strays = strays + ? WHERE name = ?", [strays, lane])


def lanes() -> Script[list[LaneInfo]]:
    """Return the lanes, and the process that works in each."""
    rows = yield Sql(
        "SELECT l.name, l.batch, l.strays, CASE WHEN s.until > ? THEN s.session END FROM @.lanes l"
        " LEFT JOIN @.leases s ON s.name = 'lane/' || l.name ORDER BY l.name",
        [(yield from now())],
    )
    return [LaneInfo(name=name, batch=batch, strays=strays, session=session) for name, batch, strays, session in rows]
