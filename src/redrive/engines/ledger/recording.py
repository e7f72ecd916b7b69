# SPDX-License-Identifier: MIT
"""Failures and successes in SQL, as they arrive: what they add to the record of a message."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from redrive.engines import stored
from redrive.engines.ledger.script import Many, Script, Sql, listed, plain
from redrive.recovery.history import Folded, Record, fold, trimmed
from redrive.recovery.records import ATTEMPTS_KEPT, Arrival, Confirmation, Heard
from redrive.recovery.states import CLAIMS, MESSAGES, SENT, MessageEvent, Outcome, Status, sources
from redrive.recovery.vocabulary import Failure

_CLAIMS = listed(CLAIMS)
_LONGEST_REASON = 300
_CONFIRMABLE = listed(sources(MESSAGES, MessageEvent.CONFIRM))
_WORTH_HEARING = (Outcome.PENDING, *(outcome for outcome in SENT if outcome is not Outcome.SUCCEEDED))


def next_change() -> Script[int]:
    """Return the number of a change, and keep other changes waiting until this one is done."""
    rows = yield Sql("UPDATE @.ledger_changes SET value = value + 1 RETURNING value")
    number: int = rows[0][0]
    return number


# --- failures


def record(now: float, arrivals: Sequence[Arrival]) -> Script[list[bool]]:
    """Record failures; say of each whether it was new."""
    change = yield from next_change()
    by_id: dict[str, list[Arrival]] = {}
    for arrival in arrivals:
        by_id.setdefault(arrival.id, []).append(arrival)
    records, numbers = yield from _records(list(by_id))
    folded = {id_: fold(records.get(id_, Record()), theirs) for id_, theirs in by_id.items()}
    new = {id_: each for id_, each in folded.items() if id_ not in records}
    more = {id_: each for id_, each in folded.items() if id_ in records and any(each.is_new)}
    yield from _store_groups(arrivals)
    yield from _store_names(arrivals)
    first = yield from _new_numbers(len(new))
    added = dict(enumerate(new.values(), first))
    changed = {numbers[id_]: each for id_, each in more.items()}
    yield Many(_INSERT, [(*_row_of(each, change), number) for number, each in added.items()])
    yield from _store_more(changed, change)
    yield from _store_contents(added, changed)
    yield from _store_fails_again({number: each for number, each in changed.items() if each.fails_again}, now)
    yield from _store_edits([each.last for each in new.values() if each.last is not None], change, now)
    answers = {id_: iter(each.is_new) for id_, each in folded.items()}
    return [next(answers[arrival.id]) for arrival in arrivals]


_INSERT = (
    "INSERT INTO @.failures (queue, status, message_type, exception_type, exception_group, attempts, first_failed_at,"
    " failed_at, attempt_key, attempt_operation, change, bytes, source, edit_of, number)"
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
        len(arrival.message.body),
        arrival.source,
        arrival.edit_of,
    )


def _last(folded: Folded) -> Arrival:
    if folded.last is None:
        raise AssertionError("a record without a failure")
    return folded.last


def _records(ids: list[str]) -> Script[tuple[dict[str, Record], dict[str, int]]]:
    """Return what is known about messages, and their numbers."""
    rows = yield Sql(
        "SELECT f.number, c.id, f.status, f.attempts, f.first_failed_at, f.failed_at, f.attempt_key, f.settled_at,"
        f" (SELECT p.operation FROM @.parts p WHERE p.failure = f.number AND p.outcome IN {_CLAIMS})"
        " FROM @.failure_contents c JOIN @.failures f ON f.number = c.number WHERE c.id IN @texts",
        [ids],
    )
    earlier: dict[int, set[str]] = {row[0]: set() for row in rows}
    if rows:
        keys = yield Sql("SELECT failure, key FROM @.failure_attempts WHERE failure IN @ints", [list(earlier)])
        for failure, key in keys:
            earlier[failure].add(key)
    known = {
        row[1]: Record(
            status=Status(row[2]),
            attempts=row[3],
            first_failed_at=row[4],
            failed_at=row[5],
            key=row[6],
            keys=frozenset(earlier[row[0]]),
            settled_at=row[7],
            operation=row[8],
        )
        for row in rows
    }
    return known, {row[1]: row[0] for row in rows}


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
            " bytes = ?, source = ? WHERE number = ?",
            [(*_row_of(each, change)[:-1], number) for number, each in replaced.items()],
        )
    late = [
        (e.record.attempts, e.record.first_failed_at, int(e.record.status), n) for n, e in more.items() if not e.last
    ]
    yield Many("UPDATE @.failures SET attempts = ?, first_failed_at = ?, status = ? WHERE number = ?", late)


def _store_contents(added: dict[int, Folded], changed: dict[int, Folded]) -> Script[None]:
    stored_ = added | changed
    last = {number: each.last for number, each in stored_.items() if each.last is not None}
    again = [number for number in last if number in changed]
    yield Many(
        "INSERT INTO @.failure_contents (message_id, exception_message, properties, details, search, body, id, number)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [(*_contents_of(last[number]), last[number].id, number) for number in added],
    )
    yield Many(
        "UPDATE @.failure_contents SET message_id = ?, exception_message = ?, properties = ?, details = ?, search = ?,"
        " body = ? WHERE number = ?",
        [(*_contents_of(last[number]), number) for number in again],
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
    failure, message = arrival.failure, arrival.message
    searched = [failure.exception_message, *(f"{name}: {value}" for name, value in message.headers.items())]
    return (
        failure.message_id,
        plain(failure.exception_message),
        stored.properties_of(message),
        _details_of(failure),
        plain("\n".join(searched)),
        message.body,
    )


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


def _store_fails_again(failed: dict[int, Folded], now: float) -> Script[None]:
    """Tell the operation that had sent a message that it failed again, and with what."""
    yield Many(
        f"UPDATE @.parts SET outcome = {int(Outcome.FAILED_AGAIN)}, at = ?, reason = ?"
        f" WHERE failure = ? AND outcome IN {_CLAIMS}",
        [(now, _said(each.last), number) for number, each in failed.items()],
    )


def _said(arrival: Arrival | None) -> str:
    if arrival is None:
        return ""
    told = f"{arrival.failure.exception_type}: {arrival.failure.exception_message}"
    return plain(told if len(told) <= _LONGEST_REASON else told[: _LONGEST_REASON - 1] + "…")


def _store_edits(arrivals: Sequence[Arrival], change: int, now: float) -> Script[None]:
    """Link an edited copy that has failed with what it was made of, which lives on in it."""
    edits = [(arrival.edit_of, arrival) for arrival in arrivals if arrival.edit_of is not None]
    for original, arrival in edits:
        rows = yield Sql(
            f"UPDATE @.failures SET status = {int(Status.RESOLVED)}, edited_as = ?, settled_at = ?, change = ?"
            " WHERE number = (SELECT number FROM @.failure_contents WHERE id = ?)"
            f" AND status IN {_CONFIRMABLE} RETURNING number",
            [arrival.id, now, change, original],
        )
        yield Many(
            f"UPDATE @.parts SET outcome = {int(Outcome.FAILED_AGAIN)}, at = ?, reason = ?"
            f" WHERE failure = ? AND outcome IN {_CLAIMS}",
            [(now, _said(arrival), row[0]) for row in rows],
        )


# --- successes


def confirm(now: float, confirmations: Sequence[Confirmation]) -> Script[list[Heard]]:
    """Note that recovered messages were handled; say of each what that was worth."""
    change = yield from next_change()
    ids = [each.id for each in confirmations]
    rows = yield Sql("SELECT id, number FROM @.failure_contents WHERE id IN @texts", [ids])
    numbers: dict[str, int] = {row[0]: row[1] for row in rows}
    known = {(numbers[each.id], each.operation): each for each in confirmations if each.id in numbers}
    before = yield from _sent(known)
    yield Many(
        f"UPDATE @.parts SET outcome = {int(Outcome.SUCCEEDED)}, at = ?"
        f" WHERE operation = ? AND failure = ? AND outcome IN {_CLAIMS}",
        [(each.at.timestamp(), each.operation, number) for (number, _), each in known.items()],
    )
    yield Many(  # it has succeeded: whoever else had sent it need not be waited for
        f"UPDATE @.parts SET outcome = {int(Outcome.CLOSED)}, at = ?, reason = ?"
        f" WHERE failure = ? AND outcome IN {_CLAIMS} AND outcome = {int(Outcome.FORWARDED)}",
        [(now, f"it succeeded after operation {operation}", number) for number, operation in known],
    )
    news = [number for number, operation in known if before.get((number, operation)) in _WORTH_HEARING]
    yield Sql(
        f"UPDATE @.failures SET status = {int(Status.RESOLVED)}, settled_at = ?, change = ?"
        f" WHERE number IN @ints AND status IN {_CONFIRMABLE}",
        [now, change, news],
    )
    return [_heard(before, (numbers.get(each.id, 0), each.operation)) for each in confirmations]


def _sent(parts: Mapping[tuple[int, int], object]) -> Script[dict[tuple[int, int], Outcome]]:
    """Return what became of messages in operations that they were in; of others in these operations too."""
    failures, operations = {failure for failure, _ in parts}, {operation for _, operation in parts}
    rows = yield Sql(
        "SELECT failure, operation, outcome FROM @.parts WHERE operation IN @ints AND failure IN @ints",
        [sorted(operations), sorted(failures)],
    )
    return {(row[0], row[1]): Outcome(row[2]) for row in rows}


def _heard(before: dict[tuple[int, int], Outcome], part: tuple[int, int]) -> Heard:
    outcome = before.get(part)
    if outcome in CLAIMS:
        before[part] = Outcome.SUCCEEDED  # a second word of it in the same page is not news
        return Heard.NEW
    return Heard.KNOWN if outcome is Outcome.SUCCEEDED else Heard.UNKNOWN
