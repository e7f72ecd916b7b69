# SPDX-License-Identifier: MIT
"""The migration that lets PostgreSQL note the journeys of messages: what ends a lock or a message says so there."""

from redrive.broker.headers import PARENT
from redrive.engines.sql.dialects import POSTGRES
from redrive.engines.sql.journey.schema import JOURNEYS

# A JSON text with a NUL in it cannot be read in PostgreSQL; then the parent is not known.
_PARENT = f"""
    CASE WHEN strpos(m.properties, '"{PARENT}"') > 0 AND strpos(m.properties, chr(92) || 'u0000') = 0
        THEN m.properties::json -> 'headers' ->> '{PARENT}' END"""

_FUNCTIONS = (
    """
-- Note what is about to happen to messages that have trouble, while their rows are still as they were.
CREATE FUNCTION @.note_trouble(p_now float8, p_sequences bigint[], p_event text, p_reason text, p_until float8)
RETURNS void LANGUAGE plpgsql @plans AS $redrive$
BEGIN
    INSERT INTO @.journey_entries (message_id, parent, at, since, until, layer, event, place, attempt, reason)
    SELECT m.id, @parent, CASE WHEN p_event = 'lock-expired' THEN least(m.due, p_now) ELSE p_now END,
        CASE WHEN m.state IN (2, 4) THEN m.due - q.lock_duration END, p_until, 'redeliver', p_event, q.name,
        m.delivery_count, coalesce(p_reason, CASE WHEN m.expires <= p_now THEN q.expired ELSE q.over_delivered END)
    FROM @.messages m JOIN @.queues q ON q.id = m.queue
    WHERE m.sequence = ANY (p_sequences) AND coalesce(q.settings ->> 'journey', '') <> 'none'
    ORDER BY m.sequence;
END $redrive$;

-- Note what happens to messages in queues that note all of them, or a sample.
CREATE FUNCTION @.note_followed(p_sequences bigint[], p_event text, p_now float8) RETURNS void
LANGUAGE plpgsql @plans AS $redrive$
BEGIN
    INSERT INTO @.journey_entries (message_id, parent, at, since, until, layer, event, place, attempt, reason)
    SELECT m.id, @parent, CASE WHEN p_event = 'sent' THEN m.enqueued_at ELSE p_now END,
        CASE WHEN m.state IN (2, 4) THEN m.due - q.lock_duration END, CASE WHEN m.state = 1 THEN m.due END,
        'redeliver', p_event, q.name, m.delivery_count, ''
    FROM @.messages m JOIN @.queues q ON q.id = m.queue
    WHERE m.sequence = ANY (p_sequences) AND CASE coalesce(q.settings ->> 'journey', 'trouble')
        WHEN 'all' THEN true WHEN 'trouble' THEN false WHEN 'none' THEN false
        ELSE ('x' || substr(md5(m.id), 1, 8))::bit(32)::bigint / 4294967296.0 < (q.settings ->> 'journey')::float8 END
    ORDER BY m.sequence;
END $redrive$;

-- The numbers, from one on, of messages that this transaction has stored: of those of others some may be between them.
CREATE FUNCTION @.stored_now(p_first bigint) RETURNS bigint[] LANGUAGE plpgsql @plans AS $redrive$
BEGIN
    RETURN ARRAY (
        SELECT m.sequence FROM @.messages m
        WHERE m.sequence >= p_first AND m.xmin::text::bigint = txid_current() & 4294967295);
END $redrive$;

CREATE OR REPLACE FUNCTION @.put_away(p_now float8, p_sequences bigint[]) RETURNS void
LANGUAGE plpgsql @plans AS $redrive$
DECLARE
    v_queues integer[];
BEGIN
    PERFORM @.note_trouble(p_now, ARRAY (
        SELECT m.sequence FROM @.messages m JOIN @.queues q ON q.id = m.queue
        WHERE m.sequence = ANY (p_sequences) AND m.expires <= p_now AND NOT q.dead_letter_on_expiration),
        'expired', '', NULL);
    WITH gone AS (
        DELETE FROM @.messages m USING @.queues q
        WHERE m.sequence = ANY (p_sequences) AND q.id = m.queue AND m.expires <= p_now
            AND NOT q.dead_letter_on_expiration
        RETURNING m.queue)
    SELECT array_agg(gone.queue) INTO v_queues FROM gone;
    IF v_queues IS NOT NULL THEN
        PERFORM @.tally(p_now, 'expired', v_queues);
    END IF;
    PERFORM @.note_trouble(p_now, p_sequences, 'dead-lettered', NULL, NULL);
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
    IF v_locks IS NOT NULL THEN
        PERFORM @.note_trouble(p_now, v_locks, 'lock-expired', '', NULL);
    END IF;
    IF released > 0 THEN
        UPDATE @.messages m SET state = CASE m.state WHEN 4 THEN 3 ELSE 0 END, due = NULL, token = NULL
        WHERE m.sequence = ANY (v_locks || v_scheduled);
    END IF;
    IF buried > 0 THEN
        PERFORM @.note_trouble(p_now, v_spent, 'dead-lettered', NULL, NULL);
        UPDATE @.messages m
        SET queue = q.dead, state = 0, delivery_count = 0, expires = NULL, session = NULL,
            dead_letter = q.over_delivered
        FROM @.queues q WHERE m.sequence = ANY (v_spent) AND q.id = m.queue;
        PERFORM @.tally(p_now, 'dead', array_fill(p_queue, ARRAY[buried]));
    END IF;
END $redrive$;
"""
).replace("@parent", _PARENT)


def journeys_migration(plans: str) -> str:
    """Return the migration.

    Args:
        plans: how the statements of functions are planned.
    """
    return POSTGRES.migration(JOURNEYS) + _FUNCTIONS.replace("@plans", plans)
