
-- how many failures there are of each kind, and when they failed
CREATE TABLE @.failure_counts (
    status smallint NOT NULL,
    exception_group text NOT NULL,
    queue text NOT NULL,
    message_type text NOT NULL,
    exception_type text NOT NULL,
    n bigint NOT NULL,
    first_failed_at float8 NOT NULL,  -- of all that have been counted here since there were none
    last_failed_at float8 NOT NULL
);
INSERT INTO @.failure_counts (status, exception_group, queue, message_type, exception_type, n, first_failed_at, last_failed_at) SELECT status, exception_group, queue, message_type, exception_type, count(*), min(failed_at), max(failed_at) FROM @.failures GROUP BY status, exception_group, queue, message_type, exception_type;

-- what people decide about a group, and what became of its messages that were sent again
CREATE TABLE @.group_states (
    id text PRIMARY KEY,
    first_seen_at float8 NOT NULL,
    owner text NOT NULL DEFAULT '',
    snoozed_until float8,
    succeeded bigint NOT NULL DEFAULT 0,
    failed_again bigint NOT NULL DEFAULT 0
);
INSERT INTO @.group_states (id, first_seen_at, succeeded, failed_again)
    SELECT f.exception_group, min(f.first_failed_at), count(CASE p.outcome WHEN 3 THEN 1 END),
        count(CASE p.outcome WHEN 4 THEN 1 END)
    FROM @.failures f LEFT JOIN @.parts p ON p.failure = f.number AND p.outcome IN (3, 4) GROUP BY f.exception_group;
INSERT INTO @.group_states (id, first_seen_at)
    SELECT g.group_id, min(f.first_failed_at) FROM @.failure_groups g JOIN @.failures f ON f.number = g.failure
    GROUP BY g.group_id;

-- the order in which they failed last
CREATE INDEX failures_newest ON @.failures (failed_at, number) WHERE status = 1;

CREATE INDEX audit_actor ON @.audit (actor, number);
CREATE INDEX audit_action ON @.audit (action, number);
CREATE INDEX audit_at ON @.audit (at, number);

ALTER TABLE @.failures ADD COLUMN host text NOT NULL DEFAULT '';  -- where its handler ran
ALTER TABLE @.failures ADD COLUMN reason text NOT NULL DEFAULT '';  -- why it was given up

UPDATE @.failures f SET
    host = coalesce(substring(split_part(c.details, '"headers": {', 1) from '"host": "([^"\\]*)"'), ''),
    reason = coalesce(substring(split_part(c.details, '"headers": {', 1) from '"reason": "([^"\\]*)"'), '')
    FROM @.failure_contents c WHERE c.number = f.number;

-- names may be longer than an entry of an index may be
CREATE FUNCTION @.kind_of(queue text, message_type text, exception_type text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $redrive$
    SELECT sha256(convert_to(queue || chr(1) || message_type || chr(1) || exception_type, 'UTF8'))
$redrive$;
CREATE UNIQUE INDEX failure_counts_kind ON @.failure_counts (
    status, exception_group, (@.kind_of(queue, message_type, exception_type)));
ALTER TABLE @.failure_counts SET (fillfactor = 50);

CREATE FUNCTION @.count_added() RETURNS trigger LANGUAGE plpgsql AS $redrive$
BEGIN
    INSERT INTO @.failure_counts AS c (status, exception_group, queue, message_type, exception_type, n, first_failed_at, last_failed_at)
        SELECT status, exception_group, queue, message_type, exception_type, count(*), min(failed_at), max(failed_at) FROM added GROUP BY status, exception_group, queue, message_type, exception_type ORDER BY status, exception_group, queue, message_type, exception_type
        ON CONFLICT (status, exception_group, (@.kind_of(queue, message_type, exception_type))) DO UPDATE SET
            n = c.n + excluded.n,
            first_failed_at = CASE c.n WHEN 0 THEN excluded.first_failed_at
                ELSE least(c.first_failed_at, excluded.first_failed_at) END,
            last_failed_at = CASE c.n WHEN 0 THEN excluded.last_failed_at
                ELSE greatest(c.last_failed_at, excluded.last_failed_at) END;
    RETURN NULL;
END
$redrive$;
CREATE TRIGGER count_added AFTER INSERT ON @.failures REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION @.count_added();


CREATE FUNCTION @.count_removed() RETURNS trigger LANGUAGE plpgsql AS $redrive$
BEGIN
    UPDATE @.failure_counts c SET n = c.n - r.many
        FROM (SELECT status, exception_group, @.kind_of(queue, message_type, exception_type) AS kind,
            count(*) AS many FROM removed GROUP BY 1, 2, 3) r
        WHERE c.status = r.status AND c.exception_group = r.exception_group AND @.kind_of(c.queue, c.message_type, c.exception_type) = r.kind;
    RETURN NULL;
END
$redrive$;
CREATE TRIGGER count_removed AFTER DELETE ON @.failures REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION @.count_removed();


CREATE FUNCTION @.count_changed() RETURNS trigger LANGUAGE plpgsql AS $redrive$
BEGIN
    IF EXISTS (SELECT FROM removed o JOIN added w ON w.number = o.number
        WHERE (o.status, o.exception_group, o.queue, o.message_type, o.exception_type, o.failed_at)
            <> (w.status, w.exception_group, w.queue, w.message_type, w.exception_type, w.failed_at)) THEN
    UPDATE @.failure_counts c SET n = c.n - r.many
        FROM (SELECT status, exception_group, @.kind_of(queue, message_type, exception_type) AS kind,
            count(*) AS many FROM removed GROUP BY 1, 2, 3) r
        WHERE c.status = r.status AND c.exception_group = r.exception_group AND @.kind_of(c.queue, c.message_type, c.exception_type) = r.kind;
    INSERT INTO @.failure_counts AS c (status, exception_group, queue, message_type, exception_type, n, first_failed_at, last_failed_at)
        SELECT status, exception_group, queue, message_type, exception_type, count(*), min(failed_at), max(failed_at) FROM added GROUP BY status, exception_group, queue, message_type, exception_type ORDER BY status, exception_group, queue, message_type, exception_type
        ON CONFLICT (status, exception_group, (@.kind_of(queue, message_type, exception_type))) DO UPDATE SET
            n = c.n + excluded.n,
            first_failed_at = CASE c.n WHEN 0 THEN excluded.first_failed_at
                ELSE least(c.first_failed_at, excluded.first_failed_at) END,
            last_failed_at = CASE c.n WHEN 0 THEN excluded.last_failed_at
                ELSE greatest(c.last_failed_at, excluded.last_failed_at) END;
    END IF;
    RETURN NULL;
END
$redrive$;
CREATE TRIGGER count_changed AFTER UPDATE ON @.failures REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION @.count_changed();
