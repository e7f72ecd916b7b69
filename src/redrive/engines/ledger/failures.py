# SPDX-License-Identifier: MIT
"""Failed messages in SQL: recording failures, confirming successes, finding and counting."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from redrive.broker.message import Message
from redrive.clock import utc
from redrive.engines import stored
from redrive.engines.ledger.filtering import condition
from redrive.engines.ledger.script import Many, Row, Script, Sql
from redrive.errors import FailureNotFound
from redrive.recovery.history import Folded, Record, fold, trimmed
from redrive.recovery.records import (
    ATTEMPTS_KEPT,
    Arrival,
    Attempt,
    Confirmation,
    FailedDetail,
    FailedMessage,
    GroupInfo,
    Heard,
    Note,
    Part,
)
from redrive.recovery.selection import Filter
from redrive.recovery.states import CLAIMS, MESSAGES, SENT, MessageEvent, Outcome, Status, sources
from redrive.recovery.vocabulary import Failure

_CLAIMS = f"({', '.join(str(int(each)) for each in CLAIMS)})"
_LONGEST_REASON = 300
_WORTH_HEARING = (Outcome.PENDING, *(outcome for outcome in SENT if outcome is not Outcome.SUCCEEDED))
_COLUMN_GROUPS = {"queue": "f.queue", "type": "f.message_type"}


def next_change() -> Script[int]:
    """Return the number of a change, and keep other changes waiting until this one is done."""
    rows = yield Sql("UPDATE @.ledger_changes SET value = value + 1 RETURNING value")
    number: int = rows[0][0]
    return number


# --- recording


def record(_now: float, arrivals: Sequence[Arrival]) -> Script[list[bool]]:
    """Record failures; say of each whether it was new."""
    change = yield from next_change()
    by_id: dict[str, list[Arrival]] = {}
    for arrival in arrivals:
        by_id.setdefault(arrival.id, []).append(arrival)
    records = yield from _records(list(by_id))
    folded = {id_: fold(records.get(id_, Record()), listed) for id_, listed in by_id.items()}
    new = {id_: each for id_, each in folded.items() if id_ not in records}
    more = {id_: each for id_, each in folded.items() if id_ in records and any(each.is_new)}
    yield from _store_groups(arrivals)
    yield from _store_names(arrivals)
    if new:
        yield Many(_INSERT, [_row_of(each, change) for each in new.values()])
    yield from _store_more(more, change)
    numbers = yield from _numbers_of([*new, *more])
    yield from _store_contents(
        {numbers[id_]: each for id_, each in (new | more).items()}, new={numbers[i] for i in new}
    )
    yield from _store_fails_again({numbers[id_]: each for id_, each in more.items() if each.fails_again}, _now)
    yield from _store_edits([each.last for each in new.values() if each.last is not None], change, _now)
    answers = {id_: iter(each.is_new) for id_, each in folded.items()}
    return [next(answers[arrival.id]) for arrival in arrivals]


_INSERT = (
    "INSERT INTO @.failures (id, message_id, queue, status, message_type, exception_type, exception_group, attempts,"
    " first_failed_at, failed_at, attempt_key, attempt_operation, change, source, edit_of)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def _row_of(folded: Folded, change: int) -> tuple[object, ...]:
    arrival, record_ = _last(folded), folded.record
    failure = arrival.failure
    return (
        arrival.id,
        failure.message_id,
        failure.queue,
        int(record_.status),
        _plain(failure.message_type),
        _plain(failure.exception_type),
        arrival.groups[0].id,
        record_.attempts,
        record_.first_failed_at,
        record_.failed_at,
        failure.key,
        failure.operation,
        change,
        arrival.source,
        arrival.edit_of,
    )


def _last(folded: Folded) -> Arrival:
    if folded.last is None:
        raise AssertionError("a record without a failure")
    return folded.last


def _records(ids: list[str]) -> Script[dict[str, Record]]:
    rows = yield Sql(
        "SELECT f.number, f.id, f.status, f.attempts, f.first_failed_at, f.failed_at, f.attempt_key, f.settled_at,"
        f" (SELECT p.operation FROM @.parts p WHERE p.failure = f.number AND p.outcome IN {_CLAIMS})"
        " FROM @.failures f WHERE f.id IN @texts",
        [ids],
    )
    earlier: dict[int, set[str]] = {row[0]: set() for row in rows}
    if rows:
        keys = yield Sql("SELECT failure, key FROM @.failure_attempts WHERE failure IN @ints", [list(earlier)])
        for failure, key in keys:
            earlier[failure].add(key)
    return {
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


def _store_groups(arrivals: Sequence[Arrival]) -> Script[None]:
    groups = {group.id: group for arrival in arrivals for group in arrival.groups}
    yield Many(
        "INSERT INTO @.groups (id, classifier, title) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING",
        [(each.id, each.classifier, _plain(each.title)) for _, each in sorted(groups.items())],
    )


def _store_names(arrivals: Sequence[Arrival]) -> Script[None]:
    names = {("source", arrival.source) for arrival in arrivals}
    names |= {("exception", _plain(arrival.failure.exception_type)) for arrival in arrivals}
    yield Many("INSERT INTO @.seen_names (kind, name) VALUES (?, ?) ON CONFLICT DO NOTHING", sorted(names))


def _store_more(more: dict[str, Folded], change: int) -> Script[None]:
    """Store what has changed about messages that have failed before."""
    replaced = {id_: each for id_, each in more.items() if each.last is not None}
    if replaced:  # what was the last failure is an earlier one now
        yield Sql(
            "INSERT INTO @.failure_attempts (failure, key, failed_at, operation, details)"
            " SELECT f.number, f.attempt_key, f.failed_at, f.attempt_operation, c.details"
            " FROM @.failures f JOIN @.failure_contents c ON c.number = f.number WHERE f.id IN @texts",
            [list(replaced)],
        )
        yield Many(
            "UPDATE @.failures SET message_id = ?, queue = ?, status = ?, message_type = ?, exception_type = ?,"
            " exception_group = ?, attempts = ?, first_failed_at = ?, failed_at = ?, attempt_key = ?,"
            " attempt_operation = ?, change = ?, source = ? WHERE id = ?",
            [(*_row_of(each, change)[1:14], id_) for id_, each in replaced.items()],
        )
    late = [
        (e.record.attempts, e.record.first_failed_at, int(e.record.status), i) for i, e in more.items() if not e.last
    ]
    yield Many("UPDATE @.failures SET attempts = ?, first_failed_at = ?, status = ? WHERE id = ?", late)


def _numbers_of(ids: list[str]) -> Script[dict[str, int]]:
    rows = yield Sql("SELECT id, number FROM @.failures WHERE id IN @texts", [ids])
    return {row[0]: row[1] for row in rows}


def _store_contents(stored_: dict[int, Folded], *, new: set[int]) -> Script[None]:
    last = {number: each.last for number, each in stored_.items() if each.last is not None}
    yield Many(
        "INSERT INTO @.failure_contents (number, exception_message, properties, details, search, body)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (number) DO UPDATE SET exception_message = excluded.exception_message,"
        " properties = excluded.properties, details = excluded.details, search = excluded.search, body = excluded.body",
        [(number, *_contents_of(arrival)) for number, arrival in last.items()],
    )
    yield Many(
        "INSERT INTO @.failure_attempts (failure, key, failed_at, operation, details) VALUES (?, ?, ?, ?, ?)",
        [(number, *_attempt_of(arrival)) for number, each in stored_.items() for arrival in each.earlier],
    )
    again = [number for number in last if number not in new]
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
        _plain(failure.exception_message),
        stored.properties_of(message),
        _details_of(failure),
        _plain("\n".join(searched)),
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
    return _plain(told if len(told) <= _LONGEST_REASON else told[: _LONGEST_REASON - 1] + "…")


def _store_edits(arrivals: Sequence[Arrival], change: int, now: float) -> Script[None]:
    """Link an edited copy that has failed with what it was made of, which lives on in it."""
    edits = [(arrival.edit_of, arrival) for arrival in arrivals if arrival.edit_of is not None]
    for original, arrival in edits:
        rows = yield Sql(
            f"UPDATE @.failures SET status = {int(Status.RESOLVED)}, edited_as = ?, settled_at = ?, change = ?"
            f" WHERE id = ? AND status IN ({_numbers(MessageEvent.CONFIRM)}) RETURNING number",
            [arrival.id, now, change, original],
        )
        yield Many(
            f"UPDATE @.parts SET outcome = {int(Outcome.FAILED_AGAIN)}, at = ?, reason = ?"
            f" WHERE failure = ? AND outcome IN {_CLAIMS}",
            [(now, _said(arrival), row[0]) for row in rows],
        )


def confirm(now: float, confirmations: Sequence[Confirmation]) -> Script[list[Heard]]:
    """Note that recovered messages were handled; say of each what that was worth."""
    change = yield from next_change()
    numbers = yield from _numbers_of([each.id for each in confirmations])
    known = {(numbers[each.id], each.operation): each for each in confirmations if each.id in numbers}
    failures = sorted({number for number, _ in known})
    before = yield from _sent(failures)
    yield Many(
        f"UPDATE @.parts SET outcome = {int(Outcome.SUCCEEDED)}, at = ?"
        f" WHERE operation = ? AND failure = ? AND outcome IN {_CLAIMS}",
        [(each.at.timestamp(), each.operation, number) for (number, _), each in known.items()],
    )
    yield Many(  # it has succeeded: whoever else had sent it need not be waited for
        f"UPDATE @.parts SET outcome = {int(Outcome.CLOSED)}, at = ?, reason = ?"
        f" WHERE failure = ? AND outcome = {int(Outcome.FORWARDED)}",
        [(now, f"it succeeded after operation {operation}", number) for number, operation in known],
    )
    news = [number for number, operation in known if before.get((number, operation)) in _WORTH_HEARING]
    yield Sql(
        f"UPDATE @.failures SET status = {int(Status.RESOLVED)}, settled_at = ?, change = ?"
        f" WHERE number IN @ints AND status IN ({_numbers(MessageEvent.CONFIRM)})",
        [now, change, news],
    )
    return [_heard(before, (numbers.get(each.id, 0), each.operation)) for each in confirmations]


def _sent(failures: list[int]) -> Script[dict[tuple[int, int], Outcome]]:
    """Return what became of messages in all the operations they were in."""
    rows = yield Sql("SELECT failure, operation, outcome FROM @.parts WHERE failure IN @ints", [failures])
    return {(row[0], row[1]): Outcome(row[2]) for row in rows}


def _heard(before: dict[tuple[int, int], Outcome], part: tuple[int, int]) -> Heard:
    outcome = before.get(part)
    if outcome in CLAIMS:
        before[part] = Outcome.SUCCEEDED  # a second word of it in the same page is not news
        return Heard.NEW
    return Heard.KNOWN if outcome is Outcome.SUCCEEDED else Heard.UNKNOWN


def _numbers(event: MessageEvent) -> str:
    return ", ".join(str(int(each)) for each in sources(MESSAGES, event))


# --- finding

_SUMMARY = (
    "SELECT f.number, f.id, f.message_id, f.queue, f.status, f.message_type, f.exception_type, c.exception_message,"
    " f.exception_group, f.attempts, f.first_failed_at, f.failed_at,"
    " (SELECT max(p.operation) FROM @.parts p WHERE p.failure = f.number), f.edit_of, f.edited_as, f.source"
    " FROM @.failures f JOIN @.failure_contents c ON c.number = f.number"
)


def find(
    _now: float, chosen: Filter, *, after: int = 0, limit: int = 100, newest_first: bool = False
) -> Script[list[FailedMessage]]:
    """Return failed messages in the order in which they were first seen."""
    found = yield from condition(chosen)
    if newest_first and after:
        found = found.also("f.number < ?", after)
    elif after:
        found = found.also("f.number > ?", after)
    order = "DESC" if newest_first else "ASC"
    rows = yield Sql(f"{_SUMMARY} WHERE {found.text} ORDER BY f.number {order} LIMIT ?", [*found.values, limit])
    return [_summary_of(row) for row in rows]


def _summary_of(row: Row) -> FailedMessage:
    return FailedMessage(
        number=row[0],
        id=row[1],
        message_id=row[2],
        queue=row[3],
        status=Status(row[4]),
        message_type=row[5],
        exception_type=row[6],
        exception_message=row[7],
        group=row[8],
        attempts=row[9],
        first_failed_at=utc(row[10]),
        failed_at=utc(row[11]),
        operation=row[12],
        edit_of=row[13],
        edited_as=row[14],
        source=row[15],
    )


def count(_now: float, chosen: Filter) -> Script[int]:
    """Count failed messages."""
    found = yield from condition(chosen)
    rows = yield Sql(f"SELECT count(*) FROM @.failures f WHERE {found.text}", found.values)
    number: int = rows[0][0]
    return number


class Page(NamedTuple):
    """Which part of a list, and in what order."""

    after: str | None
    limit: int
    largest_first: bool


def groups(_now: float, classifier: str, chosen: Filter, page: Page) -> Script[list[GroupInfo]]:
    """Return groups in order of their ids, or the largest first."""
    found = yield from condition(chosen)
    column = _COLUMN_GROUPS.get(classifier, "f.exception_group" if classifier == "exception" else "g.group_id")
    source = "@.failures f"
    if column == "g.group_id":
        source = "@.failures f JOIN @.failure_groups g ON g.failure = f.number JOIN @.groups t ON t.id = g.group_id"
        found = found.also("t.classifier = ?", classifier)
    if page.after is not None:
        found = found.also(f"{column} > ?", page.after)
    order = f"count(*) DESC, {column}" if page.largest_first else column
    rows = yield Sql(
        f"SELECT {column}, count(*), min(f.failed_at), max(f.failed_at) FROM {source} WHERE {found.text}"
        f" GROUP BY {column} ORDER BY {order} LIMIT ?",
        [*found.values, page.limit],
    )
    titles = yield from _titles([row[0] for row in rows])
    noted = yield from _counts_of_notes([f"group:{row[0]}" for row in rows])
    return [
        GroupInfo(
            id=row[0],
            title=titles.get(row[0]) or row[0],
            classifier=classifier,
            count=row[1],
            first_failed_at=utc(row[2]),
            last_failed_at=utc(row[3]),
            notes=noted.get(f"group:{row[0]}", 0),
        )
        for row in rows
    ]


def sources_seen(_now: float) -> Script[list[str]]:
    """Return the queues that failures were found in."""
    rows = yield Sql("SELECT name FROM @.seen_names WHERE kind = 'source' ORDER BY name")
    return [row[0] for row in rows]


def ids(_now: float, beginning: str, limit: int = 2) -> Script[list[str]]:
    """Return the ids of failed messages that begin so; they are hexadecimal."""
    rows = yield Sql(
        "SELECT id FROM @.failures WHERE id >= ? AND id < ? ORDER BY id LIMIT ?", [beginning, beginning + "g", limit]
    )
    return [row[0] for row in rows]


def _titles(ids: list[str]) -> Script[dict[str, str]]:
    rows = yield Sql("SELECT id, title FROM @.groups WHERE id IN @texts", [ids])
    return {row[0]: row[1] for row in rows}


def _counts_of_notes(subjects: list[str]) -> Script[dict[str, int]]:
    rows = yield Sql("SELECT subject, count(*) FROM @.notes WHERE subject IN @texts GROUP BY subject", [subjects])
    return {row[0]: row[1] for row in rows}


def show(_now: float, id_: str) -> Script[FailedDetail | None]:
    """Return everything about one failed message."""
    rows = yield Sql(f"{_SUMMARY} WHERE f.id = ?", [id_])
    if not rows:
        return None
    summary = _summary_of(rows[0])
    rows = yield Sql(
        "SELECT c.properties, c.body, c.details, f.attempt_operation FROM @.failure_contents c"
        " JOIN @.failures f ON f.number = c.number WHERE c.number = ?",
        [summary.number],
    )
    properties, body, details, operation = rows[0]
    attempts = [Attempt(failed_at=summary.failed_at, operation=operation, details=json.loads(details))]
    rows = yield Sql(
        "SELECT failed_at, operation, details FROM @.failure_attempts WHERE failure = ? ORDER BY failed_at DESC, key",
        [summary.number],
    )
    attempts += [Attempt(failed_at=utc(row[0]), operation=row[1], details=json.loads(row[2])) for row in rows]
    parts = yield Sql(
        "SELECT operation, failure, outcome, reason, at FROM @.parts WHERE failure = ? ORDER BY operation DESC",
        [summary.number],
    )
    return FailedDetail(
        summary=summary,
        message=stored.message_of(summary.message_id, properties, body),
        attempts=attempts,
        parts=[part_of(row, id_) for row in parts],
        notes=(yield from notes(_now, f"failure:{id_}")),
    )


def part_of(row: Row, id_: str) -> Part:
    """Return a part from its operation, failure, outcome, reason and time."""
    return Part(operation=row[0], failure=row[1], id=id_, outcome=Outcome(row[2]), reason=row[3], at=utc(row[4]))


def contents(_now: float, failures: Sequence[int]) -> Script[list[Message]]:
    """Return the messages of failures by their numbers."""
    rows = yield Sql(
        "SELECT f.number, f.message_id, c.properties, c.body FROM @.failures f"
        " JOIN @.failure_contents c ON c.number = f.number WHERE f.number IN @ints",
        [list(failures)],
    )
    found = {row[0]: stored.message_of(row[1], row[2], row[3]) for row in rows}
    for number in failures:
        if number not in found:
            raise FailureNotFound(str(number))
    return [found[number] for number in failures]


def _plain(text: str) -> str:
    """Return a text that every database can store."""
    return text.replace("\0", "").encode(errors="backslashreplace").decode()


# --- notes and retention


def note(now: float, subject: str, text: str, actor: str) -> Script[Note]:
    """Write a note."""
    rows = yield Sql(
        "INSERT INTO @.notes (subject, text, actor, at) VALUES (?, ?, ?, ?) RETURNING number",
        [subject, _plain(text), actor, now],
    )
    return Note(number=rows[0][0], subject=subject, text=_plain(text), actor=actor, at=utc(now))


def notes(_now: float, subject: str) -> Script[list[Note]]:
    """Return the notes about something."""
    rows = yield Sql(
        "SELECT number, subject, text, actor, at FROM @.notes WHERE subject = ? ORDER BY number", [subject]
    )
    return [Note(number=row[0], subject=row[1], text=row[2], actor=row[3], at=utc(row[4])) for row in rows]


def drop_note(_now: float, number: int) -> Script[None]:
    """Remove a note."""
    yield Sql("DELETE FROM @.notes WHERE number = ?", [number])


def sweep(_now: float, settled_before: datetime, limit: int = 1_000) -> Script[int]:
    """Delete messages that were resolved or archived before then, unless an operation has them."""
    yield from next_change()
    rows = yield Sql(
        "SELECT f.number FROM @.failures f WHERE f.status IN (3, 4) AND f.settled_at < ?"
        f" AND NOT EXISTS (SELECT 1 FROM @.parts p WHERE p.failure = f.number AND p.outcome IN {_CLAIMS})"
        " ORDER BY f.settled_at LIMIT ?",
        [settled_before.timestamp(), limit],
    )
    gone = [row[0] for row in rows]
    if gone:
        for table, column in _SWEPT:
            yield Sql(f"DELETE FROM @.{table} WHERE {column} IN @ints", [gone])
    return len(gone) + (yield from _sweep_operations(settled_before))


def _sweep_operations(ended_before: datetime) -> Script[int]:
    """Delete one operation that ended before then, unless nothing was heard yet of some of its messages."""
    rows = yield Sql(
        "SELECT o.number FROM @.operations o WHERE o.state IN (6, 7) AND o.ended_at < ? AND NOT EXISTS"
        f" (SELECT 1 FROM @.parts p WHERE p.operation = o.number AND p.outcome IN {_CLAIMS}) ORDER BY o.number LIMIT 1",
        [ended_before.timestamp()],
    )
    for row in rows:
        yield Sql("DELETE FROM @.parts WHERE operation = ?", [row[0]])
        yield Sql("DELETE FROM @.operations WHERE number = ?", [row[0]])
    return len(rows)


_SWEPT = (
    ("failure_contents", "number"),
    ("failure_attempts", "failure"),
    ("failure_groups", "failure"),
    ("failures", "number"),
)
