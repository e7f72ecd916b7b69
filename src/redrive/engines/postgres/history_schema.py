# SPDX-License-Identifier: MIT
"""The part of the history's migration that only PostgreSQL needs: functions that count what they put away.

Messages that expire, or have had their deliveries, are put away inside the database, where no process could count them.
It is rare, so it is counted at once, in the same transaction.
"""

_FUNCTIONS = """
-- Add to the tallies of queues, for the minute of a time; in order, so that two processes do not wait for each other.
CREATE FUNCTION @.tally(p_now float8, p_metric text, p_queues integer[]) RETURNS void LANGUAGE sql AS $redrive$
    INSERT INTO @.tallies AS t (topic, name, metric, step, began, n)
    SELECT 'queue', q.name, p_metric, 60, (floor(p_now / 60) * 60)::bigint, count(*)
    FROM unnest(p_queues) AS c (id) JOIN @.queues q ON q.id = c.id GROUP BY q.name ORDER BY q.name COLLATE "C"
    ON CONFLICT (topic, name, metric, step, began) DO UPDATE SET n = t.n + excluded.n;
$redrive$;

CREATE OR REPLACE FUNCTION @.put_away(p_now float8, p_sequences bigint[]) RETURNS void
LANGUAGE plpgsql @plans AS $redrive$
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
LANGUAGE plpgsql @plans AS $redrive$
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
"""


def counting_functions(plans: str) -> str:
    """Return the part of the migration.

    Args:
        plans: the settings of functions whose plans must not change.
    """
    return _FUNCTIONS.replace("@plans", plans)
