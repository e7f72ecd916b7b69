# SPDX-License-Identifier: MIT
"""The work on operations in SQL: what there is to do, marking and claiming messages, and ending an operation."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from redrive.engines.sql.recovery.batches import delete_batch
from redrive.engines.sql.recovery.failure_records import next_change
from redrive.engines.sql.recovery.leases import check
from redrive.engines.sql.recovery.operations import HAS_MEMBERS, end_if_done, move, redirects
from redrive.engines.sql.recovery.state_sql import among, transition
from redrive.engines.sql.script import Many, Row, Script, Sql, now, scalars
from redrive.recovery.port import (
    AT_WORK,
    BATCHES,
    CLAIMS,
    ENDED,
    FIRST_BATCH_STATE,
    FIRST_OUTCOME,
    LARGEST_BATCH,
    MESSAGES,
    OPERATIONS,
    PARTS,
    BatchEvent,
    BatchState,
    Counts,
    FailureEvent,
    Kind,
    Lease,
    OperationEvent,
    OperationState,
    Outcome,
    PartEvent,
    Plan,
    Status,
    Work,
)
from redrive.transition_table import sources

_CANCELLED = "the operation was cancelled"
_IS_CLAIM = among("outcome", CLAIMS)  # in every query for a claim, so that the partial index is used
_IS_PENDING = among("outcome", [Outcome.PENDING])
_IS_MARKING = among("state", [BatchState.MARKING])


# --- what there is to do


def work() -> Script[Work]:
    """Return the work that there is to do."""
    time = yield from now()
    rows = yield Sql(
        f"SELECT o.number, o.state, o.not_before, {HAS_MEMBERS} AS has_members, coalesce(b.many, 0) AS batches,"
        " coalesce(b.marking, 0) AS marking FROM @.operations o LEFT JOIN (SELECT operation, count(*) AS many,"
        f" sum(CASE WHEN {_IS_MARKING} THEN 1 ELSE 0 END) AS marking FROM @.batches GROUP BY operation) b"
        f" ON b.operation = o.number WHERE NOT ({among('o.state', ENDED)}) ORDER BY o.number"
    )
    lanes = yield from scalars(
        Sql(
            "SELECT DISTINCT b.lane FROM @.batches b JOIN @.operations o ON o.number = b.operation"
            f" WHERE {among('b.state', [BatchState.FORWARDING])} OR ({among('b.state', [BatchState.STAGING])}"
            f" AND {among('o.state', (*AT_WORK, OperationState.CANCELLING))}) ORDER BY b.lane"
        )
    )
    waiting = [at for row in rows if (at := row["not_before"]) is not None and at > time]
    return Work(
        operations=[row["number"] for row in rows if _wants_attention(row, time)],
        lanes=lanes,
        next_at=min(waiting, default=None),
    )


def _wants_attention(row: Row, time: float) -> bool:
    """Say whether an operation has work that is not the work of its lanes."""
    state, not_before = OperationState(row["state"]), row["not_before"]
    if state is OperationState.SCHEDULED:
        return not_before is None or not_before <= time
    if state is OperationState.RUNNING:  # a process may have died in the middle of marking
        return bool(row["has_members"] or not row["batches"] or row["marking"])
    return state in (OperationState.WATCHING, OperationState.CANCELLING)


# --- marking


def mark(lease: Lease, operation: int) -> Script[bool]:
    """Put the next messages of an operation into batches; False if they were the last for now."""
    yield from check(lease)
    (row,) = yield Sql("SELECT plan, state, cutoff, has_verdict FROM @.operations WHERE number = ? @lock", [operation])
    plan, state = Plan.from_json(json.loads(row["plan"])), OperationState(row["state"])
    if state is OperationState.CANCELLING:
        numbers, is_last = yield from _next_members(operation, LARGEST_BATCH)
        yield from _insert_ended(_Chosen(operation, 0, numbers, 0, plan), PartEvent.CANCEL, _CANCELLED)
        return not is_last
    if state is not OperationState.RUNNING:
        return False
    canary = None if row["has_verdict"] else plan.canary
    numbers, is_last = yield from _next_members(operation, plan.batch_size if canary is None else canary.count)
    turn = _Chosen(operation, 0, numbers, int(canary is not None), plan)
    lanes = yield from _by_lane(turn, cutoff=row["cutoff"])
    yield from _make_batches(lease, turn, lanes)
    if canary is not None and not is_last:
        yield from move(operation, OPERATIONS[state, OperationEvent.WATCH])
    return not is_last and canary is None


def _next_members(operation: int, limit: int) -> Script[tuple[list[int], bool]]:
    """Take the next messages of an operation that are not in a batch yet; say whether they are the last."""
    rows = yield Sql(
        "SELECT last, numbers FROM @.operation_members WHERE operation = ? ORDER BY last LIMIT 2", [operation]
    )
    if not rows:
        return [], True
    last, stored_numbers = rows[0]
    numbers: list[int] = sorted(json.loads(stored_numbers))
    left = numbers[limit:]
    yield Sql("DELETE FROM @.operation_members WHERE operation = ? AND last = ?", [operation, last])
    if left:
        yield Sql(
            "INSERT INTO @.operation_members (operation, last, numbers) VALUES (?, ?, ?)",
            [operation, last, json.dumps(left)],
        )
    return numbers[:limit], not left and len(rows) == 1


def _by_lane(turn: "_Chosen", cutoff: int) -> Script[dict[str, list[int]]]:
    """Return messages by their destinations; skip those that were deleted, or have changed since the request."""
    rows = yield Sql("SELECT number, queue, change FROM @.failures WHERE number IN @ints", [turn.failures])
    is_named = bool(turn.plan.filter.ids)  # a request with ids means these messages, even if they have changed
    queues: dict[int, str] = {number: queue for number, queue, change in rows if change <= cutoff or is_named}
    yield from _insert_skipped(turn, set(turn.failures).difference(queues))
    ways = yield from redirects()
    lanes: dict[str, list[int]] = {}
    for number, queue in sorted(queues.items()):
        lanes.setdefault(turn.plan.redirect or ways.get(queue, queue), []).append(number)
    return lanes


def _make_batches(lease: Lease, turn: "_Chosen", lanes: dict[str, list[int]]) -> Script[None]:
    """Make a batch of the messages of each lane."""
    state = int(FIRST_BATCH_STATE[BatchEvent.MAKE])
    yield Many(
        "INSERT INTO @.batches (operation, lane, state, session, chosen, is_canary) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (turn.operation, lane, state, lease.session, json.dumps(chosen), turn.is_canary)
            for lane, chosen in lanes.items()
        ],
    )
    if turn.plan.kind is Kind.RECOVER:  # before anything is staged there: every known lane is checked for strays
        known = "INSERT INTO @.lanes (name, next_at) VALUES (?, 0) ON CONFLICT DO NOTHING"
        yield Many(known, [(lane,) for lane in sorted(lanes)])
    yield Sql(
        "UPDATE @.operations SET batches = batches + ?, started_at = coalesce(started_at, ?) WHERE number = ?",
        [len(lanes), (yield from now()), turn.operation],
    )


def claim(lease: Lease, operation: int) -> Script[int]:
    """Claim the messages of an operation's batches in marking."""
    yield from check(lease)
    rows = yield Sql(
        "SELECT b.number, b.chosen, b.is_canary, o.plan, o.state FROM @.batches b JOIN @.operations o"
        f" ON o.number = b.operation WHERE b.operation = ? AND {among('b.state', [BatchState.MARKING])}"
        " ORDER BY b.number",
        [operation],
    )
    claimed = 0
    for batch, chosen, is_canary, plan, state in rows:
        part = _Chosen(operation, batch, json.loads(chosen), is_canary, Plan.from_json(json.loads(plan)))
        if OperationState(state) is OperationState.CANCELLING:
            yield from _insert_ended(part, PartEvent.CANCEL, _CANCELLED)
            yield from delete_batch(batch)
        else:
            claimed += yield from _claim_batch(part)
    return claimed


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Messages that are to be put into a batch, and the batch, if it exists already."""

    operation: int
    batch: int
    failures: list[int]
    is_canary: int
    plan: Plan

    @property
    def able(self) -> Sequence[Status]:
        """The statuses that a message of the operation may have."""
        return sources(MESSAGES, self.plan.kind.event)


def _claim_batch(chosen: _Chosen) -> Script[int]:
    if chosen.plan.kind is not Kind.RECOVER:
        return (yield from _do_batch(chosen))
    if chosen.plan.again:
        yield from _supersede(chosen)
    claimed = yield from _insert_parts(chosen)
    if not claimed:
        yield from delete_batch(chosen.batch)
        return 0
    claim = transition(BATCHES, BatchEvent.CLAIM)
    yield Sql(f"UPDATE @.batches SET {claim.to}, chosen = NULL WHERE number = ? AND {claim.able}", [chosen.batch])
    return claimed


_INSERT = "INSERT INTO @.parts (operation, failure, batch, is_canary, outcome, reason, at)"


def _insert_parts(chosen: _Chosen) -> Script[int]:
    """Insert the part of each message: pending, or skipped with the reason; return how many are pending."""
    claimed = yield from scalars(
        Sql(
            f"{_INSERT} SELECT ?, f.number, ?, ?, {int(FIRST_OUTCOME[PartEvent.CLAIM])}, '', ? FROM @.failures f"
            f" WHERE f.number IN @ints AND {among('f.status', chosen.able)}"
            " ON CONFLICT DO NOTHING RETURNING failure",  # a message that another operation has is not free
            [chosen.operation, chosen.batch, chosen.is_canary, (yield from now()), chosen.failures],
        )
    )
    yield from _insert_skipped(chosen, set(chosen.failures).difference(claimed))
    return len(claimed)


def _insert_skipped(chosen: _Chosen, failures: set[int]) -> Script[None]:
    """Skip some of the messages, each with its reason."""
    if not failures:
        return
    status = " ".join(f"WHEN {among('f.status', [each])} THEN 'it is {each.word}'" for each in Status)
    found = yield from scalars(
        Sql(
            f"{_INSERT} SELECT ?, f.number, ?, ?, {int(FIRST_OUTCOME[PartEvent.SKIP])}, CASE"
            " WHEN p.operation IS NOT NULL THEN 'operation ' || p.operation || ' has it'"
            f" WHEN {among('f.status', chosen.able)} THEN 'it has changed since the request'"
            f" ELSE CASE {status} END END, ?"
            f" FROM @.failures f LEFT JOIN @.parts p ON p.failure = f.number AND {among('p.outcome', CLAIMS)}"
            " WHERE f.number IN @ints RETURNING failure",
            [chosen.operation, chosen.batch, chosen.is_canary, (yield from now()), sorted(failures)],
        )
    )
    gone = sorted(failures.difference(found))
    yield from _insert_ended(replace(chosen, failures=gone), PartEvent.SKIP, "it was deleted")


def _insert_ended(chosen: _Chosen, event: PartEvent, reason: str) -> Script[None]:
    """Note that nothing is done with the messages, because they were deleted or the operation was cancelled."""
    part = (chosen.batch, chosen.is_canary, int(FIRST_OUTCOME[event]), reason, (yield from now()))
    yield Many(
        f"{_INSERT} VALUES (?, ?, ?, ?, ?, ?, ?)", [(chosen.operation, number, *part) for number in chosen.failures]
    )


def _supersede(chosen: _Chosen) -> Script[None]:
    """Take over messages that were sent and not heard of since."""
    change = yield from next_change()
    supersede = transition(PARTS, PartEvent.SUPERSEDE)
    yield Sql(
        f"UPDATE @.parts SET {supersede.to}, at = ?, reason = ?"
        f" WHERE failure IN @ints AND {_IS_CLAIM} AND {supersede.able}",
        [(yield from now()), f"operation {chosen.operation} took it over", chosen.failures],
    )
    revert = transition(MESSAGES, FailureEvent.REVERT)
    yield Sql(
        f"UPDATE @.failures AS f SET {revert.to}, change = ? WHERE f.number IN @ints AND {revert.able}"
        f" AND NOT EXISTS (SELECT 1 FROM @.parts p WHERE p.failure = f.number AND {_IS_CLAIM} AND {_IS_PENDING})",
        [change, chosen.failures],
    )


def _do_batch(chosen: _Chosen) -> Script[int]:
    """Archive, restore or resolve the messages of a batch, and finish it."""
    change = yield from next_change()
    time = yield from now()
    close, do = transition(PARTS, PartEvent.CLOSE), transition(PARTS, PartEvent.DO)
    yield Sql(  # this closes parts that were forwarded and not heard of, and frees their claims
        f"UPDATE @.parts SET {close.to}, at = ?, reason = ? WHERE {_IS_CLAIM} AND {close.able} AND failure IN"
        f" (SELECT number FROM @.failures WHERE number IN @ints AND {among('status', chosen.able)})",
        [time, f"{chosen.plan.kind.value} by operation {chosen.operation}", chosen.failures],
    )
    done = yield from _insert_parts(chosen)
    settle = transition(MESSAGES, chosen.plan.kind.event)
    yield Sql(
        f"UPDATE @.failures SET {settle.to}, settled_at = ?, change = ?, operation = ? WHERE {settle.able}"
        f" AND number IN (SELECT failure FROM @.parts WHERE batch = ? AND {_IS_PENDING})",
        [time, change, chosen.operation, chosen.batch],
    )
    yield Sql(f"UPDATE @.parts SET {do.to}, at = ? WHERE batch = ? AND {do.able}", [time, chosen.batch])
    yield from delete_batch(chosen.batch)
    return done


# --- the states of an operation


def canaries(operation: int) -> Script[tuple[Counts, float]]:
    """Return the outcomes of an operation's canaries, and the seconds since the last of them was sent."""
    rows = yield Sql(
        "SELECT outcome, count(*), max(at) FROM @.parts WHERE operation = ? AND is_canary = 1 GROUP BY outcome",
        [operation],
    )
    time = yield from now()
    return {Outcome(outcome): many for outcome, many, _ in rows}, time - max((at for *_, at in rows), default=time)


def settle(lease: Lease, operation: int) -> Script[OperationState]:
    """End an operation if it has nothing left to do, or start it if it is due."""
    yield from check(lease)
    rows = yield Sql("SELECT state, not_before FROM @.operations WHERE number = ? @lock", [operation])
    if not rows:
        return OperationState.COMPLETED
    number, not_before = rows[0]
    state = OperationState(number)
    if state is OperationState.SCHEDULED and (not_before is None or not_before <= (yield from now())):
        yield from move(operation, OPERATIONS[state, OperationEvent.COME_DUE])
    return (yield from end_if_done(operation))
