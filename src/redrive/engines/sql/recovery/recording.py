# SPDX-License-Identifier: MIT
"""Failures and successes in SQL, as they arrive: what they add to the record of a message."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from redrive.engines import stored
from redrive.engines.sql.script import Many, Script, Sql, listed, plain
from redrive.recovery.arrivals import Arrival, Confirmation, Confirmed, Heard, Recorded
from redrive.recovery.failure_formats import Failure
from redrive.recovery.merge_failures import Folded, Record, add, belongs, trimmed, untagged
from redrive.recovery.records import ATTEMPTS_KEPT
from redrive.recovery.states import (
    CLAIMS,
    MESSAGES,
    PARTS,
    MessageEvent,
    Outcome,
    PartEvent,
    Status,
    sources,
    target,
)

_CLAIMS = listed(CLAIMS)
_LONGEST_REASON = 300
_CONFIRMABLE = listed(sources(MESSAGES, MessageEvent.CONFIRM))
_TO_CONFIRM = sources(PARTS, PartEvent.CONFIRM)


def next_change() -> Script[int]:
    """Return the number of a change, and keep other changes waiting until this one is done."""
    rows = yield Sql("UPDATE @.ledger_changes SET value = value + 1 RETURNING value")
    number: int = rows[0][0]
    return number


# --- failures


@dataclass(slots=True)
class _Known:
    """What the ledger knows about the messages that failures may belong to.

    Attributes:
        records: by the number of the failed message.
        ids: the id of each.
        numbers: the number of each, by its id.
    """

    records: dict[int, Record] = field(default_factory=dict[int, Record])
    ids: dict[int, str] = field(default_factory=dict[int, str])
    numbers: dict[str, int] = field(default_factory=dict[str, int])

    def placed(self, arrival: Arrival) -> tuple[str, Arrival]:
        """Return the id of the failed message that a failure belongs to, and the failure as it counts for that."""
        number = 0 if arrival.tag is None else arrival.tag.failure
        if number in self.records and belongs(arrival, self.records[number]):
            return self.ids[number], arrival
        is_edited = arrival.tag is not None and arrival.tag.is_edited
        return arrival.id, arrival if is_edited else untagged(arrival)


def record(now: float, arrivals: Sequence[Arrival]) -> Script[list[Recorded]]:
    """Record failures; say of each to which failed message it belongs, and whether it was new."""
    change = yield from next_change()
    known = yield from _known(arrivals)
    folded, homes, news = _folded(known, arrivals)
    changed = {known.numbers[id_]: each for id_, each in folded.items() if id_ in known.numbers and any(each.is_new)}
    fresh = {id_: each for id_, each in folded.items() if id_ not in known.numbers}
    yield from _store_groups(arrivals)
    yield from _store_names(arrivals)
    first = yield from _new_numbers(len(fresh))
    added = dict(enumerate(fresh.values(), first))
    ids = dict(zip(added, fresh, strict=True))
    edits = {id_: known.ids.get(original) for id_, original in _originals(fresh).items()}
    yield Many(_INSERT, [(*_row_of(each, change), edits.get(ids[number]), number) for number, each in added.items()])
    yield from _store_more(changed, change)
    yield from _store_contents(added, changed, ids)
    yield from _store_failed_again(changed, now)
    yield from _store_untagged(changed, now)
    yield from _store_edits(fresh, change, now)
    return [Recorded(id_, is_new) for id_, is_new in zip(homes, news, strict=True)]


def _folded(known: _Known, arrivals: Sequence[Arrival]) -> tuple[dict[str, Folded], list[str], list[bool]]:
    """Add each failure to the record that it belongs to, one after another: each may change where the next belongs."""
    folded: dict[str, Folded] = {}
    homes: list[str] = []
    news: list[bool] = []
    for arrival in arrivals:
        id_, placed = known.placed(arrival)
        number = known.numbers.get(id_, 0)
        before = folded.get(id_) or Folded(record=known.records.get(number, Record()), is_new=())
        folded[id_] = after = add(before, placed)
        if number:
            known.records[number] = after.record
        homes.append(id_)
        news.append(after.is_new[-1])
    return folded, homes, news


def _originals(fresh: Mapping[str, Folded]) -> dict[str, int]:
    """Return the numbers of the messages that new failures are edited copies of."""
    last = {id_: _last(each) for id_, each in fresh.items()}
    return {id_: each.tag.failure for id_, each in last.items() if each.tag is not None and each.tag.is_edited}


_INSERT = (
    "INSERT INTO @.failures (queue, status, message_type, exception_type, exception_group, attempts, first_failed_at,"
    " failed_at, attempt_key, attempt_operation, change, source, bytes, edit_of, number)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def _new_numbers(many: int) -> Script[int]:
    """Take numbers for new failures; return the first."""
    rows = yield Sql("UPDATE @.ledger_changes SET last_failure = last_failure + ? RETURNING last_failure", [many])
    last: int = rows[0][0]
    return last - many + 1


def _row_of(folded: Folded, change: int) -> tuple[object, ...]:
    arrival, record_ = _last(folded), folded.record
    failure = arrival.failure
    return (
        failure.queue,
        int(record_.status),
        plain(failure.message_type),
        plain(failure.exception_type),
        arrival.groups[0].id,
        record_.attempts,
        record_.first_failed_at,
        record_.failed_at,
        failure.key,
        failure.operation,
        change,
        arrival.source,
        len(arrival.message.body),
    )


def _last(folded: Folded) -> Arrival:
    if folded.last is None:
        raise AssertionError("a record without a failure")
    return folded.last


def _known(arrivals: Sequence[Arrival]) -> Script[_Known]:
    """Return what is known about the messages that failures may belong to: those of their tags, and of their ids."""
    tags = [arrival.tag for arrival in arrivals if arrival.tag is not None]
    rows = yield Sql(
        "SELECT f.number, c.id, f.status, f.attempts, f.first_failed_at, f.failed_at, f.attempt_key,"
        f" (SELECT p.operation FROM @.parts p WHERE p.failure = f.number AND p.outcome IN {_CLAIMS})"
        " FROM @.failure_contents c JOIN @.failures f ON f.number = c.number WHERE c.id IN @texts OR c.number IN @ints",
        [[arrival.id for arrival in arrivals], sorted({tag.failure for tag in tags})],
    )
    known = _Known(ids={row[0]: row[1] for row in rows}, numbers={row[1]: row[0] for row in rows})
    if not rows:
        return known
    earlier: dict[int, set[str]] = {row[0]: set() for row in rows}
    keys = yield Sql("SELECT failure, key FROM @.failure_attempts WHERE failure IN @ints", [list(earlier)])
    for failure, key in keys:
        earlier[failure].add(key)
    claims = {(row[0], row[7]) for row in rows if row[7] is not None}
    outcomes = yield from _outcomes(claims | {(tag.failure, tag.operation) for tag in tags})
    for row in rows:
        known.records[row[0]] = Record(
            status=Status(row[2]),
            attempts=row[3],
            first_failed_at=row[4],
            failed_at=row[5],
            key=row[6],
            keys=frozenset(earlier[row[0]]),
            claim=row[7],
            outcomes={operation: each for (failure, operation), each in outcomes.items() if failure == row[0]},
        )
    return known


def _store_groups(arrivals: Sequence[Arrival]) -> Script[None]:
    groups = {group.id: group for arrival in arrivals for group in arrival.groups}
    yield Many(
        "INSERT INTO @.groups (id, classifier, title) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING",
        [(each.id, each.classifier, plain(each.title)) for _, each in sorted(groups.items())],
    )


def _store_names(arrivals: Sequence[Arrival]) -> Script[None]:
    names = {("source", arrival.source) for arrival in arrivals}
    names |= {("exception", plain(arrival.failure.exception_type)) for arrival in arrivals}
    yield Many("INSERT INTO @.seen_names (kind, name) VALUES (?, ?) ON CONFLICT DO NOTHING", sorted(names))


def _store_more(more: dict[int, Folded], change: int) -> Script[None]:
    """Store what has changed about messages that have failed before."""
    replaced = {number: each for number, each in more.items() if each.last is not None}
    if replaced:  # what was the last failure is an earlier one now
        yield Sql(
            "INSERT INTO @.failure_attempts (failure, key, failed_at, operation, details)"
            " SELECT f.number, f.attempt_key, f.failed_at, f.attempt_operation, c.details"
            " FROM @.failures f JOIN @.failure_contents c ON c.number = f.number WHERE f.number IN @ints",
            [list(replaced)],
        )
        yield Many(
            "UPDATE @.failures SET queue = ?, status = ?, message_type = ?, exception_type = ?, exception_group = ?,"
            " attempts = ?, first_failed_at = ?, failed_at = ?, attempt_key = ?, attempt_operation = ?, change = ?,"
            " source = ? WHERE number = ?",
            [(*_row_of(each, change)[:-1], number) for number, each in replaced.items()],
        )
    late = [
        (e.record.attempts, e.record.first_failed_at, int(e.record.status), n) for n, e in more.items() if not e.last
    ]
    yield Many("UPDATE @.failures SET attempts = ?, first_failed_at = ?, status = ? WHERE number = ?", late)


def _store_contents(added: dict[int, Folded], changed: dict[int, Folded], ids: Mapping[int, str]) -> Script[None]:
    """Store what messages carry, once: what failed stays as it was, however its copies were changed. Then the rest."""
    stored_ = added | changed
    last = {number: each.last for number, each in stored_.items() if each.last is not None}
    again = [number for number in last if number in changed]
    yield Many(
        "INSERT INTO @.failure_contents (message_id, exception_message, properties, details, search, body, id, number)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [(*_contents_of(last[number]), ids[number], number) for number in added],
    )
    yield Many(
        "UPDATE @.failure_contents SET exception_message = ?, details = ?, search = ? WHERE number = ?",
        [(*_told_of(last[number]), number) for number in again],
    )
    yield Many(
        "INSERT INTO @.failure_attempts (failure, key, failed_at, operation, details) VALUES (?, ?, ?, ?, ?)",
        [(number, *_attempt_of(arrival)) for number, each in stored_.items() for arrival in each.earlier],
    )
    if again:
        yield Sql("DELETE FROM @.failure_groups WHERE failure IN @ints", [again])
    yield Many(
        "INSERT INTO @.failure_groups (failure, group_id) VALUES (?, ?)",
        [(number, group.id) for number, arrival in last.items() for group in arrival.groups[1:]],
    )
    yield from _trim([number for number, each in stored_.items() if each.record.attempts > ATTEMPTS_KEPT])


def _contents_of(arrival: Arrival) -> tuple[object, ...]:
    message = arrival.message
    said, details, search = _told_of(arrival)
    return arrival.failure.message_id, said, stored.properties_of(message), details, search, message.body


def _told_of(arrival: Arrival) -> tuple[str, str, str]:
    """Return what is told about a failure: what the exception said, the details, and what can be searched."""
    failure, headers = arrival.failure, arrival.message.headers
    searched = [failure.exception_message, *(f"{name}: {value}" for name, value in headers.items())]
    return plain(failure.exception_message), _details_of(failure), plain("\n".join(searched))


def _attempt_of(arrival: Arrival) -> tuple[object, ...]:
    failure = arrival.failure
    return failure.key, failure.failed_at.timestamp(), failure.operation, _details_of(failure)


def _details_of(failure: Failure) -> str:
    told: dict[str, Any] = {name: value for name in _DETAILS if (value := getattr(failure, name)) not in ("", 0, None)}
    return json.dumps(told | {"headers": dict(failure.headers)})


_DETAILS = (
    *("exception_type", "exception_message", "stack_trace", "source", "reason", "description", "queue"),
    *("host", "worker", "tries", "vocabulary"),
)


def _trim(failures: list[int]) -> Script[None]:
    """Forget the oldest failures of messages that have failed very often."""
    if not failures:
        return
    rows = yield Sql("SELECT failure, failed_at, key FROM @.failure_attempts WHERE failure IN @ints", [failures])
    kept: dict[int, list[tuple[float, str]]] = {}
    for failure, failed_at, key in rows:
        kept.setdefault(failure, []).append((failed_at, key))
    gone = [(failure, key) for failure, keys in kept.items() for key in trimmed(keys, ATTEMPTS_KEPT - 1)]
    yield Many("DELETE FROM @.failure_attempts WHERE failure = ? AND key = ?", gone)


def _store_failed_again(changed: Mapping[int, Folded], now: float) -> Script[None]:
    """Tell the operations that had sent messages that these failed again, and with what."""
    yield Many(
        _FAILED_AGAIN,
        [
            (now, _said(arrival), operation, number)
            for number, each in changed.items()
            for operation, arrival in each.failed_again.items()
        ],
    )


def _store_untagged(changed: Mapping[int, Folded], now: float) -> Script[None]:
    """Let no copy that was sent before resolve a message that has failed without a tag since."""
    for number, each in changed.items():
        if each.untagged is not None:
            yield Sql(
                f"UPDATE @.parts SET outcome = {_FAILED}, at = ?, reason = ? WHERE failure = ?"
                f" AND outcome IN {_MAY_FAIL} AND operation IN (SELECT number FROM @.operations)",
                [now, _said(each.untagged), number],
            )


_FAILED, _MAY_FAIL = int(target(PARTS, PartEvent.FAIL)), listed(sources(PARTS, PartEvent.FAIL))
_FAILED_AGAIN = (
    f"UPDATE @.parts SET outcome = {_FAILED}, at = ?, reason = ?"
    f" WHERE operation = ? AND failure = ? AND outcome IN {_MAY_FAIL}"
)


def _said(arrival: Arrival) -> str:
    told = f"{arrival.failure.exception_type}: {arrival.failure.exception_message}"
    return plain(told if len(told) <= _LONGEST_REASON else told[: _LONGEST_REASON - 1] + "…")


def _store_edits(fresh: Mapping[str, Folded], change: int, now: float) -> Script[None]:
    """Archive what an edited copy that has failed was made of: the copy has taken its place."""
    originals = _originals(fresh)
    for id_, number in originals.items():
        arrival = _last(fresh[id_])
        failed = yield Sql(
            f"{_FAILED_AGAIN} RETURNING failure", [now, _said(arrival), arrival.failure.operation, number]
        )
        if failed:
            yield Sql(
                f"UPDATE @.failures SET status = {int(target(MESSAGES, MessageEvent.REPLACE))}, edited_as = ?,"
                f" settled_at = ?, change = ? WHERE number = ? AND status IN {_REPLACEABLE}"
                f" AND NOT EXISTS (SELECT 1 FROM @.parts p WHERE p.failure = ? AND p.outcome IN {_CLAIMS})",
                [id_, now, change, number, number],
            )


_REPLACEABLE = listed(sources(MESSAGES, MessageEvent.REPLACE))


# --- successes


def confirm(now: float, confirmations: Sequence[Confirmation]) -> Script[list[Confirmed]]:
    """Note that recovered messages were handled; say of each what that was worth."""
    change = yield from next_change()
    failures = sorted({each.failure for each in confirmations})
    rows = yield Sql("SELECT number, id FROM @.failure_contents WHERE number IN @ints", [failures])
    ids: dict[int, str] = {row[0]: row[1] for row in rows}
    known = {(each.failure, each.operation): each for each in confirmations if each.failure in ids}
    before = yield from _outcomes(known)
    news = {part: each for part, each in known.items() if before.get(part) in _TO_CONFIRM}
    yield Many(
        f"UPDATE @.parts SET outcome = {int(target(PARTS, PartEvent.CONFIRM))}, at = ?"
        f" WHERE operation = ? AND failure = ? AND outcome IN {listed(_TO_CONFIRM)}",
        [(each.at.timestamp(), operation, number) for (number, operation), each in news.items()],
    )
    yield Many(  # it has succeeded: whoever else had sent it need not be waited for
        f"UPDATE @.parts SET outcome = {int(target(PARTS, PartEvent.CLOSE))}, at = ?, reason = ?"
        f" WHERE failure = ? AND outcome IN {_CLAIMS} AND outcome IN {listed(sources(PARTS, PartEvent.CLOSE))}",
        [(now, f"it succeeded after operation {operation}", number) for number, operation in news],
    )
    yield Sql(
        f"UPDATE @.failures SET status = {int(target(MESSAGES, MessageEvent.CONFIRM))}, settled_at = ?, change = ?"
        f" WHERE number IN @ints AND status IN {_CONFIRMABLE}",
        [now, change, sorted(number for number, _ in news)],
    )
    return [_confirmed(each, ids, before) for each in confirmations]


def _outcomes(parts: Iterable[tuple[int, int]]) -> Script[dict[tuple[int, int], Outcome]]:
    """Return what became of messages in operations that they were in; of others in these operations too."""
    pairs = set(parts)
    if not pairs:
        return {}
    failures, operations = {failure for failure, _ in pairs}, {operation for _, operation in pairs}
    rows = yield Sql(
        "SELECT failure, operation, outcome FROM @.parts WHERE operation IN @ints AND failure IN @ints",
        [sorted(operations), sorted(failures)],
    )
    return {(row[0], row[1]): Outcome(row[2]) for row in rows}


def _confirmed(each: Confirmation, ids: Mapping[int, str], before: dict[tuple[int, int], Outcome]) -> Confirmed:
    part = (each.failure, each.operation)
    outcome, heard = before.get(part), Heard.UNKNOWN
    if outcome in _TO_CONFIRM:
        heard = Heard.NEW
        before[part] = Outcome.SUCCEEDED  # a second confirmation in the same page is not news
    elif outcome is Outcome.SUCCEEDED:
        heard = Heard.KNOWN
    return Confirmed(ids.get(each.failure, ""), each.operation, heard)
