# SPDX-License-Identifier: MIT
"""Notes of the journeys of messages, in PostgreSQL, beside those that the database's own functions make."""

from collections.abc import Sequence
from typing import Final

from redrive.engines.journeys import COLUMNS, FAILED, KEPT_S, REDELIVER, Failed

NOTE_FAILED: Final = (
    f"INSERT INTO @.journey_entries ({COLUMNS}) SELECT f.id, f.parent, @.instant($1), NULL, NULL, '{REDELIVER}',"
    f" '{FAILED}', f.place, f.attempt, f.reason FROM unnest($2::text[], $3::text[], $4::text[], $5::integer[],"
    " $6::text[]) AS f (id, parent, place, attempt, reason) LEFT JOIN @.queues q ON q.name = f.place"
    " WHERE coalesce(q.settings ->> 'journey', '') <> 'none'"
)
NOTE_TROUBLE: Final = "SELECT @.note_trouble(@.instant($1), ARRAY[$2::bigint], $3, $4, @.instant($1) + $5::float8)"
FORGET_OLD: Final = (
    "DELETE FROM @.journey_entries WHERE number IN (SELECT number FROM @.journey_entries"
    f" WHERE at < (SELECT @.instant($1) - {KEPT_S}) ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)"
)


def columns_of(failed: Sequence[Failed]) -> list[list[object]]:
    """Return what is noted of failed messages, column by column."""
    return [[stored_text(value) for value in column] for column in zip(*failed, strict=True)]


def stored_text(value: object) -> object:
    """Return a value that PostgreSQL can store: it has no NUL."""
    return value.replace("\0", "") if isinstance(value, str) else value
