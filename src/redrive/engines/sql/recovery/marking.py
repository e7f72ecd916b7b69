# SPDX-License-Identifier: MIT
"""Operations at work in SQL: what there is to do, marking and claiming messages, and how it ends."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from redrive.engines.sql.recovery.batches import delete_batch
from redrive.engines.sql.recovery.leases import check
from redrive.engines.sql.recovery.operations import HAS_MEMBERS, end_if_done, move, redirects
from redrive.engines.sql.recovery.recording import next_change
from redrive.engines.sql.script import Many, Row, Script, Sql, listed
from redrive.recovery.operation import LARGEST_BATCH, Counts, Kind, Plan
from redrive.recovery.records import Lease, Work
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

_CLAIMS, _ENDED, _AT_WORK = listed(CLAIMS), listed(ENDED), listed(AT_WORK)
_CANCELLED = "the operation was cancelled"
_PENDING, _SKIPPED = int(Outcome.PENDING), int(Outcome.SKIPPED)
_MARKING, _STAGING, _FORWARDING = (
    int(state) for state in (BatchState.MARKING, BatchState.STAGING, BatchState.FORWARDING)
)


# --- what there is to do


def work(now: float) -> Script[Work]:
    """Say what there is to do."""
    rows = yield Sql(
        f"SELECT o.number, o.state, o.not_before, {HAS_MEMBERS}, coalesce(b.many, 0), coalesce(b.marking, 0)"
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
    state, not_before, has_members, batches, marking = OperationState(row[1]), row[2], row[3], row[4], row[5]
    if state is OperationState.SCHEDULED:
        return not_before is None or not_before <= now
    if state is OperationState.RUNNING:
        return bool(has_members or not batches or marking)  # a process may have died in the middle of marking
    return state in (OperationState.WATCHING, OperationState.CANCELLING)


# --- marking


def mark(now: float, lease: Lease, operation: int) -> Script[bool]:
    """Give some messages of an operation their turn: make batches of them; False if they were the last for now."""
    yield from check(now, lease)
    rows = yield Sql("SELECT plan, state, cutoff, has_verdict FROM @.operations WHERE number = ? @lock", [operation])
    plan, state = Plan.from_json(json.loads(rows[0][0])), OperationState(rows[0][1])
    if state is OperationState.CANCELLING:
        numbers, is_last = yield from _next_members(operation, LARGEST_BATCH)
        yield from _insert_ended(now, _Chosen(operation, 0, numbers, 0, plan), Outcome.CANCELLED, _CANCELLED)
        return not is_last
    if state is not OperationState.RUNNING:
        return False
    canary = None if rows[0][3] else plan.canary
    numbers, is_last = yield from _next_members(operation, plan.batch_size if canary is None else canary.count)
    turn = _Chosen(operation, 0, numbers, int(canary is not None), plan)
    lanes = yield from _by_lane(now, turn, cutoff=rows[0][2])
    yield Many(
        "INSERT INTO @.batches (operation, lane, state, session, chosen, is_canary)"
        f" VALUES (?, ?, {_MARKING}, ?, ?, ?)",
        [(operation, lane, lease.session, json.dumps(chosen), turn.is_canary) for lane, chosen in lanes.items()],
    )
    if plan.kind is Kind.RECOVER:  # known before anything is staged there: whoever looks for strays looks at every lane
        known = "INSERT INTO @.lanes (name, next_at) VALUES (?, 0) ON CONFLICT DO NOTHING"
        yield Many(known, [(lane,) for lane in sorted(lanes)])
    yield Sql(
        "UPDATE @.operations SET batches = batches + ?, started_at = coalesce(started_at, ?) WHERE number = ?",
        [len(lanes), now, operation],
    )
    if canary is not None and not is_last:
        yield from move(now, operation, OPERATIONS[state, OperationEvent.WATCH])
    return not is_last and canary is None


def _next_members(operation: int, limit: int) -> Script[tuple[list[int], bool]]:
    """Take messages of an operation that have not had their turn yet; say whether they are the last."""
    rows = yield Sql(
        "SELECT last, numbers FROM @.operation_members WHERE operation = ? ORDER BY last LIMIT 2", [operation]
    )
    if not rows:
        return [], True
    numbers: list[int] = sorted(json.loads(rows[0][1]))
    left = numbers[limit:]
    yield Sql("DELETE FROM @.operation_members WHERE operation = ? AND last = ?", [operation, rows[0][0]])
    if left:
        yield Sql(
            "INSERT INTO @.operation_members (operation, last, numbers) VALUES (?, ?, ?)",
            [operation, rows[0][0], json.dumps(left)],
        )
    return numbers[:limit], not left and len(rows) == 1


def _by_lane(now: float, turn: "_Chosen", cutoff: int) -> Script[dict[str, list[int]]]:
    """Return messages by their destinations; skip those that are gone, or have changed since the request."""
    rows = yield Sql("SELECT number, queue, change FROM @.failures WHERE number IN @ints", [turn.failures])
    is_named = bool(turn.plan.filter.ids)  # whoever names messages means them, whatever has become of them since
    queues: dict[int, str] = {row[0]: row[1] for row in rows if row[2] <= cutoff or is_named}
    yield from _insert_skipped(now, turn, set(turn.failures).difference(queues))
    ways = yield from redirects(now)
    lanes: dict[str, list[int]] = {}
    for number, queue in sorted(queues.items()):
        lanes.setdefault(turn.plan.redirect or ways.get(queue, queue), []).append(number)
    return lanes


def claim(now: float, lease: Lease, operation: int) -> Script[int]:
    """Claim the messages of an operation's batches in marking."""
    yield from check(now, lease)
    rows = yield Sql(
        "SELECT b.number, b.chosen, b.is_canary, o.plan, o.state FROM @.batches b JOIN @.operations o"
        f" ON o.number = b.operation WHERE b.operation = ? AND b.state = {_MARKING} ORDER BY b.number",
        [operation],
    )
    claimed = 0
    for batch, chosen, is_canary, plan, state in rows:
        part = _Chosen(operation, batch, json.loads(chosen), is_canary, Plan.from_json(json.loads(plan)))
        if state == int(OperationState.CANCELLING):
            yield from _insert_ended(now, part, Outcome.CANCELLED, _CANCELLED)
            yield from delete_batch(batch)
        else:
            claimed += yield from _claim_batch(now, part)
    return claimed


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Messages whose turn it is, and the batch that wants them, if there is one yet."""

    operation: int
    batch: int
    failures: list[int]
    is_canary: int
    plan: Plan

    @property
    def able(self) -> Sequence[Status]:
        """The statuses that a message of the operation may have."""
        is_sent = self.plan.kind is Kind.RECOVER
        return (Status.UNRESOLVED,) if is_sent else sources(MESSAGES, self.plan.kind.event)


def _claim_batch(now: float, chosen: _Chosen) -> Script[int]:
    if chosen.plan.kind is not Kind.RECOVER:
        return (yield from _do_batch(now, chosen))
    if chosen.plan.again:
        yield from _supersede(now, chosen)
    claimed = yield from _insert_parts(now, chosen)
    if not claimed:
        yield from delete_batch(chosen.batch)
        return 0
    yield Sql(f"UPDATE @.batches SET state = {_STAGING}, chosen = NULL WHERE number = ?", [chosen.batch])
    return claimed


_INSERT = "INSERT INTO @.parts (operation, failure, batch, is_canary, outcome, reason, at)"


def _insert_parts(now: float, chosen: _Chosen) -> Script[int]:
    """Insert the part of each message: pending, or skipped with the reason; return how many are pending."""
    rows = yield Sql(
        f"{_INSERT} SELECT ?, f.number, ?, ?, {_PENDING}, '', ? FROM @.failures f"
        f" WHERE f.number IN @ints AND f.status IN {listed(chosen.able)}"
        " ON CONFLICT DO NOTHING RETURNING failure",  # what another operation has is not free
        [chosen.operation, chosen.batch, chosen.is_canary, now, chosen.failures],
    )
    yield from _insert_skipped(now, chosen, set(chosen.failures).difference(row[0] for row in rows))
    return len(rows)


def _insert_skipped(now: float, chosen: _Chosen, failures: set[int]) -> Script[None]:
    """Skip some of the messages, for what is found to be the reason."""
    if not failures:
        return
    status = " ".join(f"WHEN {int(each)} THEN 'it is {each.word}'" for each in Status)
    rows = yield Sql(
        f"{_INSERT} SELECT ?, f.number, ?, ?, {_SKIPPED}, CASE"
        " WHEN p.operation IS NOT NULL THEN 'operation ' || p.operation || ' has it'"
        f" WHEN f.status IN {listed(chosen.able)} THEN 'it has changed since the request'"
        f" ELSE CASE f.status {status} END END, ?"
        f" FROM @.failures f LEFT JOIN @.parts p ON p.failure = f.number AND p.outcome IN {_CLAIMS}"
        " WHERE f.number IN @ints RETURNING failure",
        [chosen.operation, chosen.batch, chosen.is_canary, now, sorted(failures)],
    )
    gone = sorted(failures.difference(row[0] for row in rows))
    yield from _insert_ended(now, replace(chosen, failures=gone), Outcome.SKIPPED, "it was deleted")


def _insert_ended(now: float, chosen: _Chosen, outcome: Outcome, reason: str) -> Script[None]:
    """Note that nothing is done with the messages, as they are gone or not wanted any more."""
    part = (chosen.batch, chosen.is_canary, int(outcome), reason, now)
    yield Many(
        f"{_INSERT} VALUES (?, ?, ?, ?, ?, ?, ?)", [(chosen.operation, number, *part) for number in chosen.failures]
    )


def _supersede(now: float, chosen: _Chosen) -> Script[None]:
    """Take over messages that were sent and never heard of."""
    change = yield from next_change()
    yield Sql(
        f"UPDATE @.parts SET outcome = {int(target(PARTS, PartEvent.SUPERSEDE))}, at = ?, reason = ?"
        f" WHERE failure IN @ints AND outcome IN {_CLAIMS}"
        f" AND outcome IN {listed(sources(PARTS, PartEvent.SUPERSEDE))}",
        [now, f"operation {chosen.operation} took it over", chosen.failures],
    )
    yield Sql(
        f"UPDATE @.failures AS f SET status = {int(target(MESSAGES, MessageEvent.REVERT))}, change = ?"
        f" WHERE f.number IN @ints AND f.status IN {listed(sources(MESSAGES, MessageEvent.REVERT))}"
        f" AND NOT EXISTS (SELECT 1 FROM @.parts p WHERE p.failure = f.number AND p.outcome IN {_CLAIMS}"
        f" AND p.outcome = {_PENDING})",
        [change, chosen.failures],
    )


def _do_batch(now: float, chosen: _Chosen) -> Script[int]:
    """Archive, restore or resolve the messages of a batch, and be done with it."""
    event = chosen.plan.kind.event
    change = yield from next_change()
    yield Sql(  # what was forwarded and not heard of is settled by this, and its claim is free
        f"UPDATE @.parts SET outcome = {int(target(PARTS, PartEvent.CLOSE))}, at = ?, reason = ?"
        f" WHERE outcome IN {_CLAIMS} AND outcome IN {listed(sources(PARTS, PartEvent.CLOSE))} AND failure IN"
        f" (SELECT number FROM @.failures WHERE number IN @ints AND status IN {listed(chosen.able)})",
        [now, f"{chosen.plan.kind.value} by operation {chosen.operation}", chosen.failures],
    )
    done = yield from _insert_parts(now, chosen)
    mine = f"SELECT failure FROM @.parts WHERE batch = ? AND outcome = {_PENDING}"
    yield Sql(
        f"UPDATE @.failures SET status = {int(target(MESSAGES, event))}, settled_at = ?, change = ?, operation = ?"
        f" WHERE number IN ({mine})",
        [now, change, chosen.operation, chosen.batch],
    )
    yield Sql(
        f"UPDATE @.parts SET outcome = {int(target(PARTS, PartEvent.DO))}, at = ?"
        f" WHERE batch = ? AND outcome = {_PENDING}",
        [now, chosen.batch],
    )
    yield from delete_batch(chosen.batch)
    return done


# --- the way of an operation


def canaries(now: float, operation: int) -> Script[tuple[Counts, float]]:
    """Return what became of an operation's canaries, and for how long the last of them has been silent."""
    rows = yield Sql(
        "SELECT outcome, count(*), max(at) FROM @.parts WHERE operation = ? AND is_canary = 1 GROUP BY outcome",
        [operation],
    )
    return {Outcome(row[0]): row[1] for row in rows}, now - max((row[2] for row in rows), default=now)


def settle(now: float, lease: Lease, operation: int) -> Script[OperationState]:
    """Bring an operation to its end if nothing of it is left, or to its beginning if it is due."""
    yield from check(now, lease)
    rows = yield Sql("SELECT state, not_before FROM @.operations WHERE number = ? @lock", [operation])
    if not rows:
        return OperationState.COMPLETED
    state = OperationState(rows[0][0])
    if state is OperationState.SCHEDULED and (rows[0][1] is None or rows[0][1] <= now):
        state = OPERATIONS[state, OperationEvent.COME_DUE]
        yield from move(now, operation, state)
    return (yield from end_if_done(now, operation))


def judged(now: float, lease: Lease, operation: int, event: OperationEvent, told: str) -> Script[None]:
    """Let the rest follow the canaries, or stop."""
    yield from check(now, lease)
    rows = yield Sql("SELECT state FROM @.operations WHERE number = ? @lock", [operation])
    to = changed(OPERATIONS, OperationState(rows[0][0]), event)
    if to is not OperationState(rows[0][0]):
        yield from move(now, operation, to, told)
        yield Sql("UPDATE @.operations SET has_verdict = 1 WHERE number = ?", [operation])
