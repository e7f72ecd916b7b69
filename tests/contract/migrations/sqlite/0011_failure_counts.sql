
-- how many failures there are of each kind, and when they failed
CREATE TABLE redrive_failure_counts (
    status integer NOT NULL,
    exception_group text NOT NULL,
    queue text NOT NULL,
    message_type text NOT NULL,
    exception_type text NOT NULL,
    n integer NOT NULL,
    first_failed_at real NOT NULL,  -- of all that have been counted here since there were none
    last_failed_at real NOT NULL
);
INSERT INTO redrive_failure_counts (status, exception_group, queue, message_type, exception_type, n, first_failed_at, last_failed_at) SELECT status, exception_group, queue, message_type, exception_type, count(*), min(failed_at), max(failed_at) FROM redrive_failures GROUP BY status, exception_group, queue, message_type, exception_type;

-- what people decide about a group, and what became of its messages that were sent again
CREATE TABLE redrive_group_states (
    id text PRIMARY KEY,
    first_seen_at real NOT NULL,
    owner text NOT NULL DEFAULT '',
    snoozed_until real,
    succeeded integer NOT NULL DEFAULT 0,
    failed_again integer NOT NULL DEFAULT 0
);
INSERT INTO redrive_group_states (id, first_seen_at, succeeded, failed_again)
    SELECT f.exception_group, min(f.first_failed_at), count(CASE p.outcome WHEN 3 THEN 1 END),
        count(CASE p.outcome WHEN 4 THEN 1 END)
    FROM redrive_failures f LEFT JOIN redrive_parts p ON p.failure = f.number AND p.outcome IN (3, 4) GROUP BY f.exception_group;
INSERT INTO redrive_group_states (id, first_seen_at)
    SELECT g.group_id, min(f.first_failed_at) FROM redrive_failure_groups g JOIN redrive_failures f ON f.number = g.failure
    GROUP BY g.group_id;

-- the order in which they failed last
CREATE INDEX redrive_failures_newest ON redrive_failures (failed_at, number) WHERE status = 1;

CREATE INDEX redrive_audit_actor ON redrive_audit (actor, number);
CREATE INDEX redrive_audit_action ON redrive_audit (action, number);
CREATE INDEX redrive_audit_at ON redrive_audit (at, number);

ALTER TABLE redrive_failures ADD COLUMN host text NOT NULL DEFAULT '';  -- where its handler ran
ALTER TABLE redrive_failures ADD COLUMN reason text NOT NULL DEFAULT '';  -- why it was given up

UPDATE redrive_failures SET
    host = coalesce((SELECT CASE WHEN json_valid(details) THEN json_extract(details, '$.host') END
        FROM redrive_failure_contents c WHERE c.number = redrive_failures.number), ''),
    reason = coalesce((SELECT CASE WHEN json_valid(details) THEN json_extract(details, '$.reason') END
        FROM redrive_failure_contents c WHERE c.number = redrive_failures.number), '');
CREATE UNIQUE INDEX redrive_failure_counts_kind ON redrive_failure_counts (status, exception_group, queue, message_type, exception_type);
CREATE TRIGGER redrive_failures_added AFTER INSERT ON redrive_failures BEGIN
    INSERT INTO redrive_failure_counts (status, exception_group, queue, message_type, exception_type, n, first_failed_at, last_failed_at)
        VALUES (new.status, new.exception_group, new.queue, new.message_type, new.exception_type, 1, new.failed_at, new.failed_at)
        ON CONFLICT (status, exception_group, queue, message_type, exception_type) DO UPDATE SET n = n + 1,
            first_failed_at = CASE n WHEN 0 THEN new.failed_at ELSE min(first_failed_at, new.failed_at) END,
            last_failed_at = CASE n WHEN 0 THEN new.failed_at ELSE max(last_failed_at, new.failed_at) END;
END;
CREATE TRIGGER redrive_failures_removed AFTER DELETE ON redrive_failures BEGIN
    UPDATE redrive_failure_counts SET n = n - 1 WHERE status = old.status AND exception_group = old.exception_group AND queue = old.queue AND message_type = old.message_type AND exception_type = old.exception_type;
END;
CREATE TRIGGER redrive_failures_changed AFTER UPDATE OF status, exception_group, queue, message_type, exception_type, failed_at ON redrive_failures
    WHEN (old.status, old.exception_group, old.queue, old.message_type, old.exception_type, old.failed_at) IS NOT (new.status, new.exception_group, new.queue, new.message_type, new.exception_type, new.failed_at) BEGIN
    UPDATE redrive_failure_counts SET n = n - 1 WHERE status = old.status AND exception_group = old.exception_group AND queue = old.queue AND message_type = old.message_type AND exception_type = old.exception_type;
    INSERT INTO redrive_failure_counts (status, exception_group, queue, message_type, exception_type, n, first_failed_at, last_failed_at)
        VALUES (new.status, new.exception_group, new.queue, new.message_type, new.exception_type, 1, new.failed_at, new.failed_at)
        ON CONFLICT (status, exception_group, queue, message_type, exception_type) DO UPDATE SET n = n + 1,
            first_failed_at = CASE n WHEN 0 THEN new.failed_at ELSE min(first_failed_at, new.failed_at) END,
            last_failed_at = CASE n WHEN 0 THEN new.failed_at ELSE max(last_failed_at, new.failed_at) END;
END;
