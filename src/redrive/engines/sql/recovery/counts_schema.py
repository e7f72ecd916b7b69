# SPDX-License-Identifier: MIT
"""The table of counts, and the triggers that change it whenever failures change.

A trigger cannot be forgotten: whichever statement changes a failure, the count of its kind changes with it, in the same
transaction. SQLite's triggers run for each row. PostgreSQL's run once for each statement, since a row that is updated a
thousand times in a transaction has a thousand versions until that ends. A kind of which none are left keeps its row
until the next sweep, and begins anew with its next failure.
"""

KIND = ("status", "exception_group", "queue", "message_type", "exception_type")
"""What failures of one kind have in common."""

_KIND = ", ".join(KIND)
_NEW, _OLD = (", ".join(f"{row}.{column}" for column in KIND) for row in ("new", "old"))
_IS_OLD = " AND ".join(f"{column} = old.{column}" for column in KIND)

FILL_COUNTS = (
    f"INSERT INTO @.failure_counts ({_KIND}, n, first_failed_at, last_failed_at)"
    f" SELECT {_KIND}, count(*), min(failed_at), max(failed_at) FROM @.failures GROUP BY {_KIND}"
)
"""Counts all failures there are."""

_TABLES = f"""
-- how many failures there are of each kind, and when they failed
CREATE TABLE @.failure_counts (
    status @small NOT NULL,
    exception_group text NOT NULL,
    queue text NOT NULL,
    message_type text NOT NULL,
    exception_type text NOT NULL,
    n @big NOT NULL,
    first_failed_at @time NOT NULL,  -- of all that have been counted here since there were none
    last_failed_at @time NOT NULL
);
{FILL_COUNTS};

-- what people decide about a group, and what became of its messages that were sent again
CREATE TABLE @.group_states (
    id text PRIMARY KEY,
    first_seen_at @time NOT NULL,
    owner text NOT NULL DEFAULT '',
    snoozed_until @time,
    succeeded @big NOT NULL DEFAULT 0,
    failed_again @big NOT NULL DEFAULT 0
);
INSERT INTO @.group_states (id, first_seen_at, succeeded, failed_again)
    SELECT f.exception_group, min(f.first_failed_at), count(CASE p.outcome WHEN 3 THEN 1 END),
        count(CASE p.outcome WHEN 4 THEN 1 END)
    FROM @.failures f LEFT JOIN @.parts p ON p.failure = f.number AND p.outcome IN (3, 4) GROUP BY f.exception_group;
INSERT INTO @.group_states (id, first_seen_at)
    SELECT g.group_id, min(f.first_failed_at) FROM @.failure_groups g JOIN @.failures f ON f.number = g.failure
    GROUP BY g.group_id;

-- the order in which they failed last
CREATE INDEX @_failures_newest ON @.failures (failed_at, number) WHERE status = 1;

CREATE INDEX @_audit_actor ON @.audit (actor, number);
CREATE INDEX @_audit_action ON @.audit (action, number);
CREATE INDEX @_audit_at ON @.audit (at, number);

ALTER TABLE @.failures ADD COLUMN host text NOT NULL DEFAULT '';  -- where its handler ran
ALTER TABLE @.failures ADD COLUMN reason text NOT NULL DEFAULT '';  -- why it was given up
"""

_COUNT_NEW = f"""INSERT INTO redrive_failure_counts ({_KIND}, n, first_failed_at, last_failed_at)
        VALUES ({_NEW}, 1, new.failed_at, new.failed_at)
        ON CONFLICT ({_KIND}) DO UPDATE SET n = n + 1,
            first_failed_at = CASE n WHEN 0 THEN new.failed_at ELSE min(first_failed_at, new.failed_at) END,
            last_failed_at = CASE n WHEN 0 THEN new.failed_at ELSE max(last_failed_at, new.failed_at) END;"""
_UNCOUNT_OLD = f"UPDATE redrive_failure_counts SET n = n - 1 WHERE {_IS_OLD};"

SQLITE_COUNTS = f"""{_TABLES}
UPDATE redrive_failures SET
    host = coalesce((SELECT CASE WHEN json_valid(details) THEN json_extract(details, '$.host') END
        FROM redrive_failure_contents c WHERE c.number = redrive_failures.number), ''),
    reason = coalesce((SELECT CASE WHEN json_valid(details) THEN json_extract(details, '$.reason') END
        FROM redrive_failure_contents c WHERE c.number = redrive_failures.number), '');
CREATE UNIQUE INDEX redrive_failure_counts_kind ON redrive_failure_counts ({_KIND});
CREATE TRIGGER redrive_failures_added AFTER INSERT ON redrive_failures BEGIN
    {_COUNT_NEW}
END;
CREATE TRIGGER redrive_failures_removed AFTER DELETE ON redrive_failures BEGIN
    {_UNCOUNT_OLD}
END;
CREATE TRIGGER redrive_failures_changed AFTER UPDATE OF {_KIND}, failed_at ON redrive_failures
    WHEN ({_OLD}, old.failed_at) IS NOT ({_NEW}, new.failed_at) BEGIN
    {_UNCOUNT_OLD}
    {_COUNT_NEW}
END;
"""
"""The migration in SQLite."""

_ADD = f"""INSERT INTO @.failure_counts AS c ({_KIND}, n, first_failed_at, last_failed_at)
        SELECT {_KIND}, count(*), min(failed_at), max(failed_at) FROM added GROUP BY {_KIND} ORDER BY {_KIND}
        ON CONFLICT (status, exception_group, (@.kind_of(queue, message_type, exception_type))) DO UPDATE SET
            n = c.n + excluded.n,
            first_failed_at = CASE c.n WHEN 0 THEN excluded.first_failed_at
                ELSE least(c.first_failed_at, excluded.first_failed_at) END,
            last_failed_at = CASE c.n WHEN 0 THEN excluded.last_failed_at
                ELSE greatest(c.last_failed_at, excluded.last_failed_at) END;"""
_SAME_KIND = (
    "c.status = r.status AND c.exception_group = r.exception_group"
    " AND @.kind_of(c.queue, c.message_type, c.exception_type) = r.kind"
)
_REMOVE = f"""UPDATE @.failure_counts c SET n = c.n - r.many
        FROM (SELECT status, exception_group, @.kind_of(queue, message_type, exception_type) AS kind,
            count(*) AS many FROM removed GROUP BY 1, 2, 3) r
        WHERE {_SAME_KIND};"""


def _trigger(name: str, event: str, tables: str, body: str) -> str:
    return f"""
CREATE FUNCTION @.{name}() RETURNS trigger LANGUAGE plpgsql AS $redrive$
BEGIN
    {body}
    RETURN NULL;
END
$redrive$;
CREATE TRIGGER {name} AFTER {event} ON @.failures REFERENCING {tables}
    FOR EACH STATEMENT EXECUTE FUNCTION @.{name}();
"""


_ADDED, _REMOVED = "NEW TABLE AS added", "OLD TABLE AS removed"

POSTGRES_COUNTS = f"""{_TABLES}
UPDATE @.failures f SET
    host = coalesce(substring(split_part(c.details, '"headers": {{', 1) from '"host": "([^"\\\\]*)"'), ''),
    reason = coalesce(substring(split_part(c.details, '"headers": {{', 1) from '"reason": "([^"\\\\]*)"'), '')
    FROM @.failure_contents c WHERE c.number = f.number;

-- names may be longer than an entry of an index may be
CREATE FUNCTION @.kind_of(queue text, message_type text, exception_type text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $redrive$
    SELECT sha256(convert_to(queue || chr(1) || message_type || chr(1) || exception_type, 'UTF8'))
$redrive$;
CREATE UNIQUE INDEX failure_counts_kind ON @.failure_counts (
    status, exception_group, (@.kind_of(queue, message_type, exception_type)));
ALTER TABLE @.failure_counts SET (fillfactor = 50);
{_trigger("count_added", "INSERT", _ADDED, _ADD)}
{_trigger("count_removed", "DELETE", _REMOVED, _REMOVE)}
{
    _trigger(
        "count_changed",
        "UPDATE",
        f"{_REMOVED} {_ADDED}",
        f'''IF EXISTS (SELECT FROM removed o JOIN added w ON w.number = o.number
        WHERE (o.status, o.exception_group, o.queue, o.message_type, o.exception_type, o.failed_at)
            <> (w.status, w.exception_group, w.queue, w.message_type, w.exception_type, w.failed_at)) THEN
    {_REMOVE}
    {_ADD}
    END IF;''',
    )
}"""
"""The migration in PostgreSQL."""
