
-- How often something happened in a span of time. A number is in one row only: when minutes are old, they are added to
-- the row of their hour, and removed in the same transaction; so for hours and days.
CREATE TABLE @.tallies (
    topic text NOT NULL,
    name text NOT NULL,
    metric text NOT NULL,
    step bigint NOT NULL,  -- how long the span is: 60, 3,600 or 86,400 seconds
    began bigint NOT NULL,  -- when it began
    n bigint NOT NULL,  -- of a gauge: the highest that was seen
    PRIMARY KEY (topic, name, metric, step, began)
);
CREATE INDEX tallies_metric ON @.tallies (topic, metric, began);
CREATE INDEX tallies_age ON @.tallies (step, began);

-- at most one row: the last minute for which depths were noted, and for how many seconds what is kept, if not as usual
CREATE TABLE @.history_state (
    one smallint PRIMARY KEY,  -- 1
    gauged bigint NOT NULL,
    minutes bigint,
    hours bigint,
    days bigint
);

-- who handles messages, for people to see
CREATE TABLE @.workers (
    session text PRIMARY KEY,
    name text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    version text NOT NULL,
    queues text NOT NULL,  -- a list in JSON
    concurrency bigint NOT NULL,
    in_flight bigint NOT NULL,
    handled bigint NOT NULL,
    p95 float8,  -- of how long handling took lately, in seconds
    since float8 NOT NULL,
    seen_at float8 NOT NULL,
    until float8 NOT NULL
);

-- The destination of each batch that there was: batches are removed when they are finished, and what became of their
-- messages is known later.
CREATE TABLE @.operation_batches (batch bigint PRIMARY KEY, operation bigint NOT NULL, lane text NOT NULL);
CREATE INDEX operation_batches_operation ON @.operation_batches (operation);
INSERT INTO @.operation_batches SELECT number, operation, lane FROM @.batches;

-- what had become of the messages of an operation by a time
CREATE TABLE @.operation_samples (
    operation bigint NOT NULL,
    at float8 NOT NULL,
    counts text NOT NULL,  -- by destination and outcome, in JSON
    PRIMARY KEY (operation, at)
);

CREATE FUNCTION @.note_batch() RETURNS trigger LANGUAGE plpgsql AS $redrive$
BEGIN
    INSERT INTO @.operation_batches VALUES (new.number, new.operation, new.lane);
    RETURN NULL;
END $redrive$;
CREATE TRIGGER batches_noted AFTER INSERT ON @.batches FOR EACH ROW EXECUTE FUNCTION @.note_batch();

-- Add to the tallies of queues, for the minute of a time; in order, so that two processes do not wait for each other.
CREATE FUNCTION @.tally(p_now float8, p_metric text, p_queues integer[]) RETURNS void LANGUAGE sql AS $redrive$
    INSERT INTO @.tallies AS t (topic, name, metric, step, began, n)
    SELECT 'queue', q.name, p_metric, 60, (floor(p_now / 60) * 60)::bigint, count(*)
    FROM unnest(p_queues) AS c (id) JOIN @.queues q ON q.id = c.id GROUP BY q.name ORDER BY q.name COLLATE "C"
    ON CONFLICT (topic, name, metric, step, began) DO UPDATE SET n = t.n + excluded.n;
$redrive$;

CREATE OR REPLACE FUNCTION @.put_away(p_now float8, p_sequences bigint[]) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $redrive$
DECLARE
    v_queues integer[];
BEGIN
    WITH gone AS (
        DELETE FROM @.messages m USING @.queues q
        WHERE m.sequence = ANY (p_sequences) AND q.id = m.queue AND m.expires <= p_now
            AND NOT q.dead_letter_on_expiration
        RETURNING m.queue)
    SELECT array_agg(gone.queue) INTO v_queues FROM gone;
    IF v_queues IS NOT NULL THEN
        PERFORM @.tally(p_now, 'expired', v_queues);
    END IF;
    WITH dead AS (
        UPDATE @.messages m
        SET queue = q.dead, state = 0, due = NULL, token = NULL, delivery_count = 0, expires = NULL, session = NULL,
            dead_letter = CASE WHEN m.expires <= p_now THEN q.expired ELSE q.over_delivered END
        FROM @.queues q
        WHERE m.sequence = ANY (p_sequences) AND q.id = m.queue
        RETURNING q.id)
    SELECT array_agg(dead.id) INTO v_queues FROM dead;
    IF v_queues IS NOT NULL THEN
        PERFORM @.tally(p_now, 'dead', v_queues);
    END IF;
END $redrive$;

CREATE OR REPLACE FUNCTION @.release_due(
    p_now float8, p_queue integer, p_limit integer, OUT released integer, OUT buried integer)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $redrive$
DECLARE
    v_spent bigint[];
    v_locks bigint[];
    v_scheduled bigint[];
BEGIN
    SELECT array_agg(f.sequence) FILTER (WHERE f.is_spent), array_agg(f.sequence) INTO v_spent, v_locks FROM (
        SELECT m.sequence, m.delivery_count >= q.max_delivery_count AS is_spent
        FROM @.messages m JOIN @.queues q ON q.id = m.queue
        WHERE m.queue = p_queue AND m.state IN (2, 4) AND m.due <= p_now
        ORDER BY m.due LIMIT p_limit FOR UPDATE OF m SKIP LOCKED) f;
    SELECT array_agg(f.sequence) INTO v_scheduled FROM (
        SELECT m.sequence FROM @.messages m WHERE m.queue = p_queue AND m.state = 1 AND m.due <= p_now
        ORDER BY m.due LIMIT p_limit FOR UPDATE SKIP LOCKED) f;
    released := coalesce(cardinality(v_locks), 0) + coalesce(cardinality(v_scheduled), 0);
    buried := coalesce(cardinality(v_spent), 0);
    IF released > 0 THEN
        UPDATE @.messages m SET state = CASE m.state WHEN 4 THEN 3 ELSE 0 END, due = NULL, token = NULL
        WHERE m.sequence = ANY (v_locks || v_scheduled);
    END IF;
    IF buried > 0 THEN
        UPDATE @.messages m
        SET queue = q.dead, state = 0, delivery_count = 0, expires = NULL, session = NULL,
            dead_letter = q.over_delivered
        FROM @.queues q WHERE m.sequence = ANY (v_spent) AND q.id = m.queue;
        PERFORM @.tally(p_now, 'dead', array_fill(p_queue, ARRAY[buried]));
    END IF;
END $redrive$;
