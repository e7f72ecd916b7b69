# SPDX-License-Identifier: MIT
"""Work on operations in SQL: leases, marking, and the way of a batch. Whatever changes a batch shows a lease."""

import json
from collections.abc import Iterable, Mapping, Sequence

from redrive.engines import stored
from redrive.engines.ledger.failures import next_change
from redrive.engines.ledger.operations import move, redirects, wanted
from redrive.engines.ledger.script import Many, Row, Script, Sql
from redrive.errors import LeaseLost
from redrive.recovery.copies import edited_id
from redrive.recovery.plan import Counts, Kind, Plan
from redrive.recovery.records import Batch, LaneInfo, Lease, Staged, Work, storable
from redrive.recovery.states import (
    AT_WORK,
    CLAIMS,
    ENDED,
    MESSAGES,
    OPERATIONS,
    PARTS,
    BatchState,
    MessageEvent,
    OperationEvent,
    OperationState,
    Outcome,
    PartEvent,
    Status,
    changed,
    sources,
    target,
)

_LARGEST_PAGE_BYTES = 16 * 1_048_576
"""Messages are read in pages of that size at most, unless one alone is larger."""


def _listed(states: Iterable[int]) -> str:
    return f"({', '.join(str(int(each)) for each in states)})"


_CLAIMS, _ENDED, _AT_WORK = _listed(CLAIMS), _listed(ENDED), _listed(AT_WORK)
_PENDING, _SKIPPED = int(Outcome.PENDING), int(Outcome.SKIPPED)
_MARKING, _STAGING, _FORWARDING = (
    int(state) for state in (BatchState.MARKING, BatchState.STAGING, BatchState.FORWARDING)
)


# --- leases


def hold(now: float, name: str, session: str, seconds: float) -> Script[Lease | None]:
    """Take a lease that is free, or ours, or has ended."""
    rows = yield Sql(
        "INSERT INTO @.leases AS l (name, session, token, until) VALUES (?, ?, 1, ?)"
        " ON CONFLICT (name) DO UPDATE SET session = excluded.session, token = l.token + 1, until = excluded.until"
        " WHERE l.until <= ? OR l.session = excluded.session RETURNING token",
        [name, session, now + seconds, now],
    )
    return Lease(name, session, rows[0][0]) if rows else None


def renew(now: float, lease: Lease, seconds: float) -> Script[None]:
    """Lengthen a lease that has not ended."""
    yield Sql(
        "UPDATE @.leases SET until = ? WHERE name = ? AND token = ? AND until > ?",
        [now + seconds, lease.name, lease.token, now],
    )


def release(now: float, lease: Lease) -> Script[None]:
    """Give a lease back; its row stays, so that no token comes twice."""
    yield Sql("UPDATE @.leases SET until = ? WHERE name = ? AND token = ?", [now, lease.name, lease.token])


def _check(now: float, lease: Lease, lock: str = " @lock") -> Script[None]:
    rows = yield Sql(
        f"SELECT 1 FROM @.leases WHERE name = ? AND token = ? AND until > ?{lock}", [lease.name, lease.token, now]
    )
    if not rows:
        raise LeaseLost(f"{lease.name} has gone to another process, or the time for it was over")


# --- what there is to do


def work(now: float) -> Script[Work]:
    """Say what there is to do."""
    rows = yield Sql(
        "SELECT o.number, o.state, o.not_before, o.is_marked, coalesce(b.many, 0), coalesce(b.marking, 0)"
        " FROM @.operations o LEFT JOIN (SELECT operation, count(*) AS many,"
        f" sum(CASE state WHEN {_MARKING} THEN 1 ELSE 0 END) AS marking FROM @.batches GROUP BY operation) b"
        f" ON b.operation = o.number WHERE o.state NOT IN {_ENDED} ORDER BY o.number"
    )
    lanes = yield Sql(
        "SELECT DISTINCT b.lane FROM @.batches b JOIN @.operations o ON o.number = b.operation"
        f" WHERE b.state = {_FORWARDING}"
        f" OR (b.state = {_STAGING} AND (o.state IN {_AT_WORK} OR o.state = {int(OperationState.CANCELLING)}))"
        " ORDER BY b.lane"
    )
    waiting = [row[2] for row in rows if row[2] is not None and row[2] > now]
    return Work(
        operations=[row[0] for row in rows if _wants_attention(row, now)],
        lanes=[row[0] for row in lanes],
        next_at=min(waiting, default=None),
    )


def _wants_attention(row: Row, now: float) -> bool:
    """Say whether there is something to do for an operation beside what its lanes do."""
    state, not_before, is_marked, batches, marking = OperationState(row[1]), row[2], row[3], row[4], row[5]
    if state is OperationState.SCHEDULED:
        return not_before is None or not_before <= now
    if state is OperationState.RUNNING:
        return not is_marked or not batches or bool(marking)  # a process may have died in the middle of marking
    return state in (OperationState.WATCHING, OperationState.CANCELLING)


# --- marking


def next_page(_now: float, operation: int) -> Script[list[tuple[int, str]] | None]:
    """Return the next messages of an operation, with their queues; None if there is nothing to mark."""
    rows = yield Sql(
        "SELECT plan, state, cutoff, position, marked, is_marked, has_verdict FROM @.operations WHERE number = ?",
        [operation],
    )
    if not rows or rows[0][1] != int(OperationState.RUNNING) or rows[0][5]:
        return None
    plan = Plan.from_json(json.loads(rows[0][0]))
    found = yield from wanted(plan)
    if not plan.filter.ids:  # whoever names messages means them, whatever has become of them since
        found = found.also("f.change <= ?", rows[0][2])
    page = yield Sql(
        f"SELECT f.number, f.queue FROM @.failures f WHERE {found.text} AND f.number > ? ORDER BY f.number LIMIT ?",
        [*found.values, rows[0][3], _page_size(plan, rows[0][4], has_verdict=bool(rows[0][6]))],
    )
    return [(row[0], row[1]) for row in page]


def _page_size(plan: Plan, marked: int, *, has_verdict: bool) -> int:
    size = plan.batch_size
    if plan.canary is not None and not has_verdict:
        size = min(size, plan.canary.count)
    return size if plan.limit is None else max(0, min(size, plan.limit - marked))


def mark(now: float, lease: Lease, operation: int, page: Sequence[tuple[int, str]]) -> Script[bool]:
    """Make batches of a page, one for each destination; False if it was the last."""
    yield from _check(now, lease)
    rows = yield Sql(
        "SELECT plan, state, position, marked, is_marked, has_verdict FROM @.operations WHERE number = ? @lock",
        [operation],
    )
    plan, state, position, marked, is_marked, has_verdict = rows[0]
    if state != int(OperationState.RUNNING) or is_marked or (page and page[0][0] <= position):
        return False
    plan = Plan.from_json(json.loads(plan))
    size = _page_size(plan, marked, has_verdict=bool(has_verdict))
    is_canary = plan.canary is not None and not has_verdict
    is_last = len(page) < size or not size or (plan.limit is not None and marked + len(page) >= plan.limit)
    lanes = yield from _by_lane(plan, page)
    yield Many(
        "INSERT INTO @.batches (operation, lane, state, session, chosen, is_canary)"
        f" VALUES (?, ?, {_MARKING}, ?, ?, ?)",
        [(operation, lane, lease.session, json.dumps(chosen), int(is_canary)) for lane, chosen in lanes.items()],
    )
    yield Sql(
        "UPDATE @.operations SET position = ?, marked = marked + ?, batches = batches + ?, is_marked = ?,"
        " started_at = coalesce(started_at, ?) WHERE number = ?",
        [page[-1][0] if page else position, len(page), len(lanes), int(is_last), now, operation],
    )
    if is_canary and not is_last:
        yield from move(now, operation, OPERATIONS[OperationState.RUNNING, OperationEvent.WATCH])
    return not is_last and not is_canary


def _by_lane(plan: Plan, page: Sequence[tuple[int, str]]) -> Script[dict[str, list[int]]]:
    ways = yield from redirects(0.0)
    lanes: dict[str, list[int]] = {}
    for number, queue in page:
        lanes.setdefault(plan.redirect or ways.get(queue, queue), []).append(number)
    return lanes


def claim(now: float, lease: Lease, operation: int) -> Script[int]:
    """Claim the messages of an operation's batches in marking."""
    yield from _check(now, lease)
    rows = yield Sql(
        "SELECT b.number, b.chosen, b.is_canary, o.plan, o.state FROM @.batches b JOIN @.operations o"
        f" ON o.number = b.operation WHERE b.operation = ? AND b.state = {_MARKING} ORDER BY b.number",
        [operation],
    )
    claimed = 0
    for batch, chosen, is_canary, plan, state in rows:
        if state == int(OperationState.CANCELLING):
            yield from _delete_batch(batch)
        else:
            part = _Chosen(operation, batch, json.loads(chosen), is_canary, Plan.from_json(json.loads(plan)))
            claimed += yield from _claim_batch(now, part)
    return claimed


class _Chosen:
    """The messages that a batch wants."""

    def __init__(self, operation: int, batch: int, failures: list[int], is_canary: int, plan: Plan) -> None:
        self.operation = operation
        self.batch = batch
        self.failures = failures
        self.is_canary = is_canary
        self.plan = plan


def _claim_batch(now: float, chosen: _Chosen) -> Script[int]:
    if chosen.plan.kind is not Kind.RECOVER:
        return (yield from _do_batch(now, chosen))
    if chosen.plan.again:
        yield from _supersede(now, chosen)
    claimed = yield from _insert_parts(now, chosen, able=(Status.UNRESOLVED,))
    if not claimed:
        yield from _delete_batch(chosen.batch)
        return 0
    yield Sql(f"UPDATE @.batches SET state = {_STAGING}, chosen = NULL WHERE number = ?", [chosen.batch])
    return claimed


def _insert_parts(now: float, chosen: _Chosen, *, able: Sequence[Status]) -> Script[int]:
    """Insert the part of each message: pending, or skipped with the reason; return how many are pending.

    What another process claims at the same moment is not inserted at first, and is skipped when we look again.
    """
    status = "CASE f.status " + " ".join(f"WHEN {int(each)} THEN 'it is {each.word}'" for each in Status) + " END"
    is_able = f"f.status IN {_listed(able)}"
    insert = (
        "INSERT INTO @.parts (operation, failure, batch, is_canary, outcome, reason, at)"
        f" SELECT ?, f.number, ?, ?, CASE WHEN p.operation IS NULL AND {is_able} THEN {_PENDING} ELSE {_SKIPPED} END,"
        f" CASE WHEN p.operation IS NOT NULL THEN 'operation ' || p.operation || ' has it'"
        f" WHEN {is_able} THEN '' ELSE {status} END, ?"
        f" FROM @.failures f LEFT JOIN @.parts p ON p.failure = f.number AND p.outcome IN {_CLAIMS}"
        " WHERE f.number IN @ints ON CONFLICT DO NOTHING RETURNING outcome"
    )
    wanted, claimed = chosen.failures, 0
    for _ in range(10):
        rows = yield Sql(insert, [chosen.operation, chosen.batch, chosen.is_canary, now, wanted])
        claimed += sum(row[0] == _PENDING for row in rows)
        if len(rows) == len(wanted):
            break
        missing = yield Sql(
            "SELECT f.number FROM @.failures f WHERE f.number IN @ints AND NOT EXISTS"
            " (SELECT 1 FROM @.parts p WHERE p.operation = ? AND p.failure = f.number)",
            [wanted, chosen.operation],
        )
        wanted = [row[0] for row in missing]
        if not wanted:  # the others have been deleted
            break
    return claimed


def _supersede(now: float, chosen: _Chosen) -> Script[None]:
    """Take over messages that were sent and never heard of."""
    change = yield from next_change()
    yield Sql(
        f"UPDATE @.parts SET outcome = {int(target(PARTS, PartEvent.SUPERSEDE))}, at = ?, reason = ?"
        f" WHERE failure IN @ints AND outcome IN {_listed(sources(PARTS, PartEvent.SUPERSEDE))}",
        [now, f"operation {chosen.operation} took it over", chosen.failures],
    )
    yield Sql(
        f"UPDATE @.failures AS f SET status = {int(target(MESSAGES, MessageEvent.REVERT))}, change = ?"
        f" WHERE f.number IN @ints AND f.status IN {_listed(sources(MESSAGES, MessageEvent.REVERT))}"
        f" AND NOT EXISTS (SELECT 1 FROM @.parts p WHERE p.failure = f.number AND p.outcome = {_PENDING})",
        [change, chosen.failures],
    )


def _do_batch(now: float, chosen: _Chosen) -> Script[int]:
    """Archive, restore or resolve the messages of a batch, and be done with it."""
    event = chosen.plan.kind.event
    able = sources(MESSAGES, event)
    change = yield from next_change()
    yield Sql(  # what was forwarded and not heard of is settled by this, and its claim is free
        f"UPDATE @.parts SET outcome = {int(target(PARTS, PartEvent.CLOSE))}, at = ?, reason = ?"
        f" WHERE outcome IN {_listed(sources(PARTS, PartEvent.CLOSE))} AND failure IN"
        f" (SELECT number FROM @.failures WHERE number IN @ints AND status IN {_listed(able)})",
        [now, f"{chosen.plan.kind.value} by operation {chosen.operation}", chosen.failures],
    )
    done = yield from _insert_parts(now, chosen, able=able)
    mine = f"SELECT failure FROM @.parts WHERE batch = ? AND outcome = {_PENDING}"
    yield Sql(
        f"UPDATE @.failures SET status = {int(target(MESSAGES, event))}, settled_at = ?, change = ?"
        f" WHERE number IN ({mine})",
        [now, change, chosen.batch],
    )
    yield Sql(
        f"UPDATE @.parts SET outcome = {int(target(PARTS, PartEvent.DO))}, at = ?"
        f" WHERE batch = ? AND outcome = {_PENDING}",
        [now, chosen.batch],
    )
    yield from _delete_batch(chosen.batch)
    return done


def _delete_batch(batch: int) -> Script[None]:
    yield Sql("DELETE FROM @.batches WHERE number = ?", [batch])
    yield Sql("UPDATE @.lanes SET batch = NULL WHERE batch = ?", [batch])


# --- operations


def canaries(now: float, operation: int) -> Script[tuple[Counts, float]]:
    """Return what became of an operation's canaries, and for how long the last of them has been silent."""
    rows = yield Sql(
        "SELECT outcome, count(*), max(at) FROM @.parts WHERE operation = ? AND is_canary = 1 GROUP BY outcome",
        [operation],
    )
    return {Outcome(row[0]): row[1] for row in rows}, now - max((row[2] for row in rows), default=now)


def settle(now: float, lease: Lease, operation: int) -> Script[OperationState]:
    """Bring an operation to its end if nothing of it is left, or to its beginning if it is due."""
    yield from _check(now, lease)
    rows = yield Sql("SELECT state, not_before FROM @.operations WHERE number = ? @lock", [operation])
    if not rows:
        return OperationState.COMPLETED
    state = OperationState(rows[0][0])
    if state is OperationState.SCHEDULED and (rows[0][1] is None or rows[0][1] <= now):
        state = OPERATIONS[state, OperationEvent.COME_DUE]
        yield from move(now, operation, state)
    return (yield from _end_if_done(now, operation))


def judged(now: float, lease: Lease, operation: int, event: OperationEvent, told: str) -> Script[None]:
    """Let the rest follow the canaries, or stop."""
    yield from _check(now, lease)
    rows = yield Sql("SELECT state FROM @.operations WHERE number = ? @lock", [operation])
    to = changed(OPERATIONS, OperationState(rows[0][0]), event)
    if to is not OperationState(rows[0][0]):
        yield from move(now, operation, to, told)
        yield Sql("UPDATE @.operations SET has_verdict = 1 WHERE number = ?", [operation])


def _end_if_done(now: float, operation: int) -> Script[OperationState]:
    rows = yield Sql(
        "SELECT o.state, o.is_marked, EXISTS (SELECT 1 FROM @.batches b WHERE b.operation = o.number)"
        " FROM @.operations o WHERE o.number = ?",
        [operation],
    )
    state, is_marked, has_batches = OperationState(rows[0][0]), rows[0][1], rows[0][2]
    is_done = not has_batches and (is_marked or state is OperationState.CANCELLING)
    to = changed(OPERATIONS, state, OperationEvent.FINISH) if is_done else state
    if to is not state:
        yield from move(now, operation, to)
    return to


# --- the way of a batch


def next_batch(now: float, lease: Lease, lane: str) -> Script[Batch | None]:
    """Return the batch that a lane is forwarding, or else the next one to be staged."""
    yield from _check(now, lease, lock="")
    columns = (
        "SELECT b.number, b.operation, o.plan, b.state, o.state, b.staging_id, coalesce(l.next_at, 0) FROM @.batches b"
        " JOIN @.operations o ON o.number = b.operation LEFT JOIN @.lanes l ON l.name = b.lane WHERE b.lane = ?"
    )
    rows = yield Sql(f"{columns} AND b.state = {_FORWARDING} AND b.number = l.batch", [lane])
    if not rows:  # there is none, or the lane points at one that has vanished
        rows = yield Sql(
            f"{columns} AND b.state = {_STAGING}"
            f" AND (o.state IN {_AT_WORK} OR o.state = {int(OperationState.CANCELLING)})"
            " ORDER BY o.served, b.number LIMIT 1",
            [lane],
        )
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


def to_stage(_now: float, batch: Batch, *, after: int = 0, limit: int = 200) -> Script[tuple[list[Staged], bool]]:
    """Return messages of a batch that are still to be recovered, as fit into memory, and whether there are more."""
    sizes = yield Sql(
        "SELECT p.failure, length(c.body) FROM @.parts p JOIN @.failures f ON f.number = p.failure"
        " JOIN @.failure_contents c ON c.number = p.failure"
        f" WHERE p.batch = ? AND p.outcome = {_PENDING} AND p.failure > ? AND f.status = {int(Status.UNRESOLVED)}"
        " ORDER BY p.failure LIMIT ?",
        [batch.number, after, limit + 1],
    )
    chosen: list[int] = []
    room = _LARGEST_PAGE_BYTES
    for failure, size in sizes[:limit]:
        if chosen and size > room:
            break
        chosen.append(failure)
        room -= size
    rows = yield Sql(
        "SELECT f.number, f.id, f.queue, f.message_id, c.properties, c.body FROM @.failures f"
        " JOIN @.failure_contents c ON c.number = f.number WHERE f.number IN @ints ORDER BY f.number",
        [chosen],
    )
    page = [
        Staged(failure=row[0], id=row[1], queue=row[2], message=stored.message_of(row[3], row[4], row[5]))
        for row in rows
    ]
    return page, len(chosen) < len(sizes)


def staged(
    now: float, lease: Lease, batch: Batch, staging_id: str, refused: Mapping[int, str]
) -> Script[dict[str, int]]:
    """Let a batch go forward: status, staging id and pointer change together."""
    yield from _check(now, lease)
    change = yield from next_change()
    yield from _leave(now, batch, refused, PartEvent.EJECT)
    mine = f"SELECT failure FROM @.parts WHERE batch = ? AND outcome = {_PENDING}"
    issued = yield Sql(
        f"UPDATE @.failures SET status = {int(target(MESSAGES, MessageEvent.STAGE))}, settled_at = ?, change = ?"
        f" WHERE number IN ({mine}) AND status IN {_listed(sources(MESSAGES, MessageEvent.STAGE))}"
        " RETURNING id, number",
        [now, change, batch.number],
    )
    if batch.plan.is_edit:
        edited = [(edited_id(row[0], batch.operation), row[1]) for row in issued]
        yield Many("UPDATE @.failures SET edited_as = ? WHERE number = ?", edited)
    yield from _skip_others(now, batch, [row[1] for row in issued])
    yield Sql("UPDATE @.operations SET served = served + 1 WHERE number = ?", [batch.operation])
    if not issued:
        yield from _delete_batch(batch.number)
        yield from _end_if_done(now, batch.operation)
        return {}
    yield Sql(
        f"UPDATE @.batches SET state = {_FORWARDING}, staging_id = ? WHERE number = ?", [staging_id, batch.number]
    )
    yield Sql(
        "INSERT INTO @.lanes (name, batch, next_at) VALUES (?, ?, 0)"
        " ON CONFLICT (name) DO UPDATE SET batch = excluded.batch",
        [batch.lane, batch.number],
    )
    return {row[0]: row[1] for row in issued}


def _skip_others(now: float, batch: Batch, issued: list[int]) -> Script[None]:
    """Skip the messages of a batch whose status has changed since they were claimed."""
    rows = yield Sql(f"SELECT failure FROM @.parts WHERE batch = ? AND outcome = {_PENDING}", [batch.number])
    others = {row[0] for row in rows}.difference(issued)
    yield Many(
        f"UPDATE @.parts SET outcome = {int(target(PARTS, PartEvent.SKIP))}, at = ?, reason = 'its status has changed'"
        f" WHERE operation = ? AND failure = ? AND outcome = {_PENDING}",
        [(now, batch.operation, failure) for failure in sorted(others)],
    )


def pending(_now: float, batch: Batch) -> Script[dict[str, int]]:
    """Return the messages of a batch that are not done: their ids and numbers."""
    rows = yield Sql(
        "SELECT f.id, p.failure FROM @.parts p JOIN @.failures f ON f.number = p.failure"
        f" WHERE p.batch = ? AND p.outcome = {_PENDING} AND f.status = {int(Status.RETRY_ISSUED)}",
        [batch.number],
    )
    return {row[0]: row[1] for row in rows}


def state_of(now: float, lease: Lease, batch: Batch) -> Script[OperationState]:
    """Return how far a batch's operation is, if the batch is still ours to work on."""
    yield from _check(now, lease, lock="")
    return (yield from _state_of(batch))


def _state_of(batch: Batch) -> Script[OperationState]:
    rows = yield Sql("SELECT state FROM @.operations WHERE number = ?", [batch.operation])
    return OperationState(rows[0][0])


def reserve(now: float, lease: Lease, batch: Batch, next_at: float) -> Script[None]:
    """Note that a lane sends now and not again before then."""
    yield from _check(now, lease)
    yield Sql("UPDATE @.lanes SET next_at = ? WHERE name = ?", [next_at, batch.lane])


def forwarded(now: float, lease: Lease, batch: Batch, failures: Sequence[int], *, told: str = "") -> Script[None]:
    """Note that messages have left for their destination."""
    yield from _check(now, lease)
    yield from _note_forwarded(now, batch, failures, told)


def _note_forwarded(now: float, batch: Batch, failures: Sequence[int], told: str) -> Script[None]:
    yield Sql(
        f"UPDATE @.parts SET outcome = {int(target(PARTS, PartEvent.FORWARD))}, at = ?, reason = ?"
        f" WHERE operation = ? AND failure IN @ints AND outcome = {_PENDING}",
        [now, told, batch.operation, list(failures)],
    )


def eject(now: float, lease: Lease, batch: Batch, reasons: Mapping[int, str]) -> Script[None]:
    """Note that messages could not be sent."""
    yield from _check(now, lease)
    yield from next_change()
    yield from _leave(now, batch, reasons, PartEvent.EJECT)


def _leave(now: float, batch: Batch, reasons: Mapping[int, str], event: PartEvent) -> Script[None]:
    """Let messages leave a batch, with their reasons; they are unresolved again."""
    if not reasons:
        return
    yield Many(
        f"UPDATE @.parts SET outcome = {int(target(PARTS, event))}, at = ?, reason = ?"
        f" WHERE operation = ? AND failure = ? AND outcome = {_PENDING}",
        [(now, storable(reason), batch.operation, failure) for failure, reason in reasons.items()],
    )
    yield from _revert(list(reasons))


def _revert(failures: list[int]) -> Script[None]:
    rows = yield Sql("SELECT value FROM @.ledger_changes")
    yield Sql(
        f"UPDATE @.failures SET status = {int(target(MESSAGES, MessageEvent.REVERT))}, settled_at = NULL,"
        " edited_as = NULL, change = ?"
        f" WHERE number IN @ints AND status IN {_listed(sources(MESSAGES, MessageEvent.REVERT))}",
        [rows[0][0], failures],
    )


def unstage(now: float, lease: Lease, batch: Batch, failures: Sequence[int]) -> Script[None]:
    """Take messages back that were staged and not sent, as their operation was paused or cancelled."""
    yield from _check(now, lease)
    yield from next_change()
    if (yield from _state_of(batch)) is OperationState.CANCELLING:
        yield from _leave(now, batch, dict.fromkeys(failures, "the operation was cancelled"), PartEvent.CANCEL)
        return
    successor = yield from _successor(batch)
    yield Sql(
        f"UPDATE @.parts SET batch = ? WHERE operation = ? AND failure IN @ints AND outcome = {_PENDING}",
        [successor, batch.operation, list(failures)],
    )
    yield from _revert(list(failures))


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
    yield from _check(now, lease)
    if forwarded:
        yield from _note_forwarded(now, batch, forwarded, "")
    yield from next_change()
    if (yield from _state_of(batch)) is OperationState.CANCELLING:
        rows = yield Sql(f"SELECT failure FROM @.parts WHERE batch = ? AND outcome = {_PENDING}", [batch.number])
        reasons = dict.fromkeys((row[0] for row in rows), "the operation was cancelled")
        yield from _leave(now, batch, reasons, PartEvent.CANCEL)
    else:
        yield from _skip_others(now, batch, [])
    yield from _delete_batch(batch.number)
    return (yield from _end_if_done(now, batch.operation))


# --- lanes


def count_strays(now: float, lease: Lease, lane: str, strays: int) -> Script[None]:
    """Count copies that belonged to no batch, and were dropped."""
    yield from _check(now, lease)
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
