# SPDX-License-Identifier: MIT
"""The way of a batch in SQL, from staging to its end, and the lanes that batches take."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from redrive.engines import stored
from redrive.engines.sql.recovery.leases import check
from redrive.engines.sql.recovery.operations import end_if_done
from redrive.engines.sql.recovery.recording import next_change
from redrive.engines.sql.script import Many, Script, Sql, listed
from redrive.recovery.operation import Plan
from redrive.recovery.records import Batch, LaneInfo, Lease, Staged, storable
from redrive.recovery.staged_copy import edited_id
from redrive.recovery.states import (
    AT_WORK,
    MESSAGES,
    PARTS,
    BatchState,
    MessageEvent,
    OperationState,
    Outcome,
    PartEvent,
    Status,
    sources,
    target,
)

_LARGEST_PAGE_BYTES = 16 * 1_048_576
"""Messages are read in pages of that size at most, unless one alone is larger."""

_NO_COPY = "there was nothing to send: its content is gone, or it was restored after its turn"
_PENDING = int(Outcome.PENDING)
_TELL = "reason = ? || CASE reason WHEN '' THEN '' ELSE '; it ' || reason END"
"""What becomes of a message, and behind it what was in doubt about it before."""

_STAGING, _FORWARDING = int(BatchState.STAGING), int(BatchState.FORWARDING)


_WAITING = f"b.lane = ? AND b.state = {_STAGING}"
_NEXT = (  # the operation that has had least, then its first batch: a lane may have thousands waiting
    f"SELECT min(b.number) FROM @.batches b WHERE {_WAITING} AND b.operation = (SELECT o.number FROM @.operations o"
    f" WHERE o.state IN {listed((*AT_WORK, OperationState.CANCELLING))}"
    f" AND EXISTS (SELECT 1 FROM @.batches b WHERE {_WAITING} AND b.operation = o.number)"
    " ORDER BY o.served, o.number LIMIT 1)"
)


def next_batch(now: float, lease: Lease, lane: str) -> Script[Batch | None]:
    """Return the batch that a lane is forwarding, or else the next one to be staged."""
    yield from check(now, lease, lock="")
    columns = (
        "SELECT b.number, b.operation, o.plan, b.state, o.state, b.staging_id, coalesce(l.next_at, 0) FROM @.batches b"
        " JOIN @.operations o ON o.number = b.operation LEFT JOIN @.lanes l ON l.name = b.lane WHERE b.lane = ?"
    )
    rows = yield Sql(f"{columns} AND b.state = {_FORWARDING} AND b.number = l.batch", [lane])
    if not rows:  # there is none, or the lane points at one that has vanished
        rows = yield Sql(f"{columns} AND b.number = ({_NEXT})", [lane, lane, lane])
    if not rows:
        return None
    row = rows[0]
    return Batch(
        number=row[0],
        operation=row[1],
        plan=Plan.from_json(json.loads(row[2])),
        state=BatchState(row[3]),
        operation_state=OperationState(row[4]),
        lane=lane,
        staging_id=row[5],
        next_at=row[6],
    )


def to_stage(_now: float, batch: Batch, *, after: int = 0, limit: int = 200) -> Script[tuple[list[Staged], int | None]]:
    """Return messages of a batch that are still to be recovered, as fit into memory, and after which to go on."""
    found = yield Sql(
        "SELECT p.failure, f.bytes, f.queue FROM @.parts p JOIN @.failures f ON f.number = p.failure"
        f" WHERE p.batch = ? AND p.outcome = {_PENDING} AND p.failure > ? AND f.status = {int(Status.UNRESOLVED)}"
        " ORDER BY p.failure LIMIT ?",
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
        Staged(failure=row[0], id=row[1], queue=queues[row[0]], message=stored.message_of(row[2], row[3], row[4]))
        for row in rows
    ]
    return page, max(queues) if len(queues) < len(found) else None


def staged(
    now: float, lease: Lease, batch: Batch, copied: Mapping[str, int], refused: Mapping[int, str]
) -> Script[set[int]]:
    """Let a batch go forward: status, staging id and pointer change together."""
    yield from check(now, lease)
    change = yield from next_change()
    yield from _leave(now, batch, refused, PartEvent.EJECT)
    claimed = yield from _claimed(batch)
    rows = yield Sql(
        f"UPDATE @.failures SET status = {int(target(MESSAGES, MessageEvent.STAGE))}, settled_at = ?, change = ?,"
        f" operation = ? WHERE number IN @ints AND status IN {listed(sources(MESSAGES, MessageEvent.STAGE))}"
        " RETURNING number",
        [now, change, batch.operation, sorted(claimed.intersection(copied.values()))],
    )
    issued = {row[0] for row in rows}
    uncopied = yield from _uncopied(claimed.difference(copied.values()))
    yield from _leave(now, batch, dict.fromkeys(uncopied, _NO_COPY), PartEvent.EJECT)
    yield from _skip(now, batch, claimed.difference(issued, uncopied))
    if batch.plan.is_edit:
        edited = [(edited_id(id_, batch.operation), number) for id_, number in copied.items() if number in issued]
        yield Many("UPDATE @.failures SET edited_as = ? WHERE number = ?", edited)
    yield Sql("UPDATE @.operations SET served = served + 1 WHERE number = ?", [batch.operation])
    if not issued:
        yield from delete_batch(batch.number)
        yield from end_if_done(now, batch.operation)
        return set()
    yield Sql(
        f"UPDATE @.batches SET state = {_FORWARDING}, staging_id = ? WHERE number = ?", [batch.staging_id, batch.number]
    )
    yield Sql(
        "INSERT INTO @.lanes (name, batch, next_at) VALUES (?, ?, 0)"
        " ON CONFLICT (name) DO UPDATE SET batch = excluded.batch",
        [batch.lane, batch.number],
    )
    return issued


def _uncopied(failures: set[int]) -> Script[list[int]]:
    """Return those of some messages that were to be sent, and of which no copy could be made."""
    if not failures:
        return []
    rows = yield Sql(
        f"SELECT number FROM @.failures WHERE number IN @ints AND status = {int(Status.UNRESOLVED)} ORDER BY number",
        [sorted(failures)],
    )
    return [row[0] for row in rows]


def _claimed(batch: Batch) -> Script[set[int]]:
    """Return the messages of a batch that nothing has become of yet."""
    rows = yield Sql(f"SELECT failure FROM @.parts WHERE batch = ? AND outcome = {_PENDING}", [batch.number])
    return {row[0] for row in rows}


def _skip(now: float, batch: Batch, failures: Iterable[int]) -> Script[None]:
    """Skip messages of a batch whose status has changed since they were claimed."""
    yield Many(
        f"UPDATE @.parts SET outcome = {int(target(PARTS, PartEvent.SKIP))}, at = ?, {_TELL}"
        f" WHERE operation = ? AND failure = ? AND outcome = {_PENDING}",
        [(now, "its status has changed", batch.operation, failure) for failure in sorted(failures)],
    )


def pending(_now: float, batch: Batch) -> Script[set[int]]:
    """Return the numbers of the messages of a batch that are not done."""
    rows = yield Sql(
        "SELECT p.failure FROM @.parts p JOIN @.failures f ON f.number = p.failure"
        f" WHERE p.batch = ? AND p.outcome = {_PENDING} AND f.status = {int(Status.RETRY_ISSUED)}",
        [batch.number],
    )
    return {row[0] for row in rows}


def latest(now: float, lease: Lease, batch: Batch) -> Script[Batch]:
    """Return a batch with what its operation is up to now, if the batch is still ours to work on."""
    yield from check(now, lease, lock="")
    rows = yield Sql("SELECT plan, state FROM @.operations WHERE number = ?", [batch.operation])
    return replace(batch, plan=Plan.from_json(json.loads(rows[0][0])), operation_state=OperationState(rows[0][1]))


def _state_of(batch: Batch) -> Script[OperationState]:
    rows = yield Sql("SELECT state FROM @.operations WHERE number = ?", [batch.operation])
    return OperationState(rows[0][0])


def reserve(now: float, lease: Lease, batch: Batch, next_at: float) -> Script[None]:
    """Note that a lane sends now and not again before then."""
    yield from check(now, lease)
    yield Sql("UPDATE @.lanes SET next_at = ? WHERE name = ?", [next_at, batch.lane])


def forwarded(now: float, lease: Lease, batch: Batch, failures: Sequence[int], *, told: str = "") -> Script[None]:
    """Note that messages have left for their destination."""
    yield from check(now, lease)
    yield from _note_forwarded(now, batch, failures, told)


def _note_forwarded(now: float, batch: Batch, failures: Sequence[int], told: str) -> Script[None]:
    reason, values = (f", {_TELL}", [told]) if told else ("", [])
    yield Sql(
        f"UPDATE @.parts SET outcome = {int(target(PARTS, PartEvent.FORWARD))}, at = ?{reason}"
        f" WHERE operation = ? AND failure IN @ints AND outcome = {_PENDING}",
        [now, *values, batch.operation, list(failures)],
    )


def doubt(now: float, lease: Lease, batch: Batch, failures: Sequence[int], told: str) -> Script[None]:
    """Note something about messages that is told with whatever becomes of them."""
    yield from check(now, lease)
    yield Sql(
        f"UPDATE @.parts SET reason = ? WHERE operation = ? AND failure IN @ints AND outcome = {_PENDING}",
        [told, batch.operation, list(failures)],
    )


def eject(now: float, lease: Lease, batch: Batch, reasons: Mapping[int, str]) -> Script[None]:
    """Note that messages could not be sent."""
    yield from check(now, lease)
    yield from next_change()
    yield from _leave(now, batch, reasons, PartEvent.EJECT)


def _leave(now: float, batch: Batch, reasons: Mapping[int, str], event: PartEvent) -> Script[None]:
    """Let messages leave a batch, with their reasons; they are unresolved again."""
    if not reasons:
        return
    yield Many(
        f"UPDATE @.parts SET outcome = {int(target(PARTS, event))}, at = ?, {_TELL}"
        f" WHERE operation = ? AND failure = ? AND outcome = {_PENDING}",
        [(now, storable(reason), batch.operation, failure) for failure, reason in reasons.items()],
    )
    yield from _revert(batch, list(reasons))


def _revert(batch: Batch, failures: list[int]) -> Script[None]:
    rows = yield Sql("SELECT value FROM @.ledger_changes")
    yield Sql(
        f"UPDATE @.failures SET status = {int(target(MESSAGES, MessageEvent.REVERT))}, settled_at = NULL,"
        " edited_as = NULL, change = ?, operation = ?"
        f" WHERE number IN @ints AND status IN {listed(sources(MESSAGES, MessageEvent.REVERT))}",
        [rows[0][0], batch.operation, failures],
    )


def unstage(now: float, lease: Lease, batch: Batch, failures: Sequence[int]) -> Script[None]:
    """Take messages back that were staged and not sent, as their operation was paused or cancelled."""
    yield from check(now, lease)
    yield from next_change()
    if (yield from _state_of(batch)) is OperationState.CANCELLING:
        yield from _leave(now, batch, dict.fromkeys(failures, "the operation was cancelled"), PartEvent.CANCEL)
        return
    successor = yield from _successor(batch)
    yield Sql(
        f"UPDATE @.parts SET batch = ? WHERE operation = ? AND failure IN @ints AND outcome = {_PENDING}",
        [successor, batch.operation, list(failures)],
    )
    yield from _revert(batch, list(failures))


def _successor(batch: Batch) -> Script[int]:
    """Return the batch that has what a batch took back; a batch itself never goes backward."""
    rows = yield Sql("SELECT successor, is_canary FROM @.batches WHERE number = ? @lock", [batch.number])
    if rows[0][0] is not None:
        return int(rows[0][0])
    made = yield Sql(
        "INSERT INTO @.batches (operation, lane, state, session, is_canary)"
        f" VALUES (?, ?, {_STAGING}, '', ?) RETURNING number",
        [batch.operation, batch.lane, rows[0][1]],
    )
    yield Sql("UPDATE @.batches SET successor = ? WHERE number = ?", [made[0][0], batch.number])
    yield Sql("UPDATE @.operations SET batches = batches + 1 WHERE number = ?", [batch.operation])
    return int(made[0][0])


def finish(now: float, lease: Lease, batch: Batch, forwarded: Sequence[int] = ()) -> Script[OperationState]:
    """Delete a batch: nothing of it is left to do, or its operation is being cancelled."""
    yield from check(now, lease)
    if forwarded:
        yield from _note_forwarded(now, batch, forwarded, "")
    yield from next_change()
    left = yield from _claimed(batch)
    if (yield from _state_of(batch)) is OperationState.CANCELLING:
        yield from _leave(now, batch, dict.fromkeys(left, "the operation was cancelled"), PartEvent.CANCEL)
    else:
        yield from _skip(now, batch, left)
    yield from delete_batch(batch.number)
    return (yield from end_if_done(now, batch.operation))


def delete_batch(batch: int) -> Script[None]:
    """Forget a batch, and let its lane point at nothing."""
    yield Sql("DELETE FROM @.batches WHERE number = ?", [batch])
    yield Sql("UPDATE @.lanes SET batch = NULL WHERE batch = ?", [batch])


# --- lanes


def count_strays(now: float, lease: Lease, lane: str, strays: int) -> Script[None]:
    """Count copies that belonged to no batch, and were dropped."""
    yield from check(now, lease)
    yield Sql("UPDATE @.lanes SET strays = strays + ? WHERE name = ?", [strays, lane])


def lanes(now: float) -> Script[list[LaneInfo]]:
    """Return the lanes, and who is at work in each."""
    rows = yield Sql(
        "SELECT l.name, l.batch, l.strays, s.session, s.until FROM @.lanes l"
        " LEFT JOIN @.leases s ON s.name = 'lane/' || l.name ORDER BY l.name"
    )
    return [
        LaneInfo(
            name=row[0], batch=row[1], strays=row[2], session=row[3] if row[4] is not None and row[4] > now else None
        )
        for row in rows
    ]
