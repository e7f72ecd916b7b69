# SPDX-License-Identifier: MIT
"""The migration that makes fan-out cheaper on PostgreSQL, and lets a topic remember the ids of its messages.

A message that several subscriptions get in the same way goes to the database once; for each further one there are three
numbers. Before, each had a row of its own with its id and its properties.
"""

_FUNCTIONS = """
DROP FUNCTION @.exchange;
DROP FUNCTION @.store;

-- The numbers of messages, among those of messages and legs; without legs they are all.
CREATE FUNCTION @.own_sequences(p_sequences bigint[], p_number integer[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE AS
$redrive$
    SELECT CASE WHEN p_number IS NULL THEN p_sequences ELSE ARRAY (
        SELECT p_sequences[n.number] FROM unnest(p_number) WITH ORDINALITY AS n (number, place) ORDER BY n.place) END
$redrive$;

-- Store messages under these numbers; return them, with NULL for each duplicate. One queue may stand for all. A message
-- that shares its body has the place of the first that does, which has the body. One with a reason is a dead letter.
-- What more queues get just as the first does is a leg: the place of that message, a queue and a number. If a topic
-- remembers ids, the first message names the topic, and if that one is a duplicate, no other is stored.
CREATE FUNCTION @.store(
    p_now float8, p_sequences bigint[], p_queue integer[], p_at float8[], p_ttl float8[], p_window float8[],
    p_id text[], p_session text[], p_properties text[], p_body bytea[], p_shares integer[], p_dead_letter text[],
    p_seen integer[], p_number integer[], p_leg_of integer[], p_leg_queue integer[], p_leg_number integer[],
    p_unmatched integer[]
) RETURNS bigint[] LANGUAGE plpgsql SET enable_hashjoin = on SET enable_nestloop = off AS $redrive$
DECLARE
    v_own bigint[] := @.own_sequences(p_sequences, p_number);
    v_sequences bigint[] := v_own;
    i integer;
BEGIN
    IF cardinality(p_unmatched) > 0 THEN
        UPDATE @.queues q SET unmatched = q.unmatched + u.count
        FROM (SELECT n AS id, count(*) AS count FROM unnest(p_unmatched) n GROUP BY n) u WHERE q.id = u.id;
    END IF;
    IF cardinality(array_remove(p_window, NULL)) > 0 THEN
        -- in order of the ids, so that two senders of the same ones do not wait for each other
        FOR i IN SELECT u.place FROM unnest(p_id) WITH ORDINALITY u (id, place) ORDER BY u.id, u.place LOOP
            CONTINUE WHEN p_window[i] IS NULL;
            INSERT INTO @.seen_ids AS seen  -- an index entry has room for 2,700 bytes
            VALUES (
                coalesce(p_seen[i], p_queue[i], p_queue[1]),
                CASE WHEN octet_length(p_id[i]) <= 2000 THEN p_id[i] ELSE 'md5 ' || md5(p_id[i]) END,
                p_now + p_window[i])
            ON CONFLICT (queue, id) DO UPDATE SET until = excluded.until WHERE seen.until <= p_now;
            IF NOT FOUND THEN
                v_sequences[i] := NULL;
            END IF;
        END LOOP;
        IF p_seen IS NOT NULL AND p_shares IS NOT NULL THEN
            v_sequences := ARRAY (
                SELECT CASE WHEN p_seen[s.shares] IS NULL OR v_sequences[s.shares] IS NOT NULL THEN s.sequence END
                FROM unnest(v_sequences, p_shares) WITH ORDINALITY AS s (sequence, shares, place) ORDER BY s.place);
        END IF;
    END IF;
    IF p_shares IS NULL AND p_dead_letter IS NULL THEN  -- mostly: no topic is among the queues
        INSERT INTO @.messages
            (sequence, queue, state, due, delivery_count, enqueued_at, expires, id, session, properties, body)
        SELECT s.sequence, coalesce(s.queue, p_queue[1]), CASE WHEN s.at > p_now THEN 1 ELSE 0 END,
            CASE WHEN s.at > p_now THEN s.at END, 0, p_now, greatest(s.at, p_now) + s.ttl, s.id, s.session,
            s.properties, s.body
        FROM unnest(v_sequences, p_queue, p_at, p_ttl, p_id, p_session, p_properties, p_body)
            AS s (sequence, queue, at, ttl, id, session, properties, body)
        WHERE s.sequence IS NOT NULL;
        RETURN v_sequences;
    END IF;
    WITH used AS (
        INSERT INTO @.content_uses (id, uses)
        SELECT v_own[u.place], count(*) FROM (
            SELECT s.shares AS place FROM unnest(v_sequences, p_shares) AS s (sequence, shares)
            WHERE s.sequence IS NOT NULL AND s.shares IS NOT NULL
            UNION ALL
            SELECT g FROM unnest(p_leg_of) g WHERE v_sequences[g] IS NOT NULL) u
        GROUP BY u.place RETURNING id)
    INSERT INTO @.contents (id, body)
    SELECT used.id, s.body FROM used JOIN unnest(v_own, p_body) AS s (sequence, body) ON s.sequence = used.id;
    INSERT INTO @.messages
        (sequence, queue, state, due, delivery_count, enqueued_at, expires, id, session, properties, dead_letter, body,
        content)
    SELECT s.sequence, coalesce(s.queue, p_queue[1]), CASE WHEN s.at > p_now THEN 1 ELSE 0 END,
        CASE WHEN s.at > p_now THEN s.at END, 0, p_now, greatest(s.at, p_now) + s.ttl, s.id, s.session,
        s.properties, s.dead_letter, CASE WHEN s.shares IS NULL THEN s.body END, v_own[s.shares]
    FROM unnest(v_sequences, p_queue, p_at, p_ttl, p_id, p_session, p_properties, p_body, p_shares, p_dead_letter)
        AS s (sequence, queue, at, ttl, id, session, properties, body, shares, dead_letter)
    WHERE s.sequence IS NOT NULL;
    IF p_leg_of IS NOT NULL THEN
        INSERT INTO @.messages
            (sequence, queue, state, due, delivery_count, enqueued_at, expires, id, properties, content)
        SELECT p_sequences[g.number], g.queue, CASE WHEN s.at > p_now THEN 1 ELSE 0 END,
            CASE WHEN s.at > p_now THEN s.at END, 0, p_now, greatest(s.at, p_now) + s.ttl, s.id, s.properties,
            s.sequence
        FROM unnest(v_sequences, p_at, p_ttl, p_id, p_properties)
                WITH ORDINALITY AS s (sequence, at, ttl, id, properties, place)
            JOIN unnest(p_leg_of, p_leg_queue, p_leg_number) AS g (place, queue, number) ON g.place = s.place
        WHERE s.sequence IS NOT NULL;
    END IF;
    RETURN v_sequences;
END $redrive$;

-- Everything that a group of callers wants, in one transaction: remove, then store, then lock.
CREATE FUNCTION @.exchange(
    p_now float8, p_queues integer[], p_versions integer[], p_writer bigint, p_number bigint,
    d_sequence bigint[], d_token bigint[], d_queue integer[],
    s_queue integer[], s_at float8[], s_ttl float8[], s_window float8[], s_id text[], s_session text[],
    s_properties text[], s_body bytea[], s_shares integer[], s_dead_letter text[], s_seen integer[],
    s_number integer[], g_of integer[], g_queue integer[], g_number integer[], s_unmatched integer[],
    l_queue integer[], l_limit integer[], l_maximum integer[], l_duration float8[], l_from bigint[], l_token bigint,
    u_queue integer[]
) RETURNS TABLE (
    place integer, due float8, delivery_count integer, sequence bigint, enqueued_at float8, expires float8, id text,
    properties text, dead_letter text, body bytea, sequences bigint[]
) LANGUAGE plpgsql ROWS 10 SET lock_timeout = '1s' @plans AS $redrive$
DECLARE
    v_now float8 := @.instant(p_now);
    v_all bigint[];
    v_sequences bigint[];
    v_tids tid[];
    v_count integer;
BEGIN
    IF cardinality(s_id) > 0 THEN
        v_all := ARRAY (
            SELECT nextval('@.message_sequence')
            FROM generate_series(1, cardinality(s_id) + coalesce(cardinality(g_of), 0)));
        v_sequences := @.own_sequences(v_all, s_number);
    END IF;
    -- first of all, so that a process that asks what became of this waits for its end
    INSERT INTO @.receipts (writer, number, sequences) SELECT p_writer, p_number, v_sequences
    WHERE cardinality(p_queues) = (
        SELECT count(*) FROM @.queues q
        WHERE q.id = ANY (p_queues) AND q.version = p_versions[array_position(p_queues, q.id)]);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the queues have changed' USING ERRCODE = 'RD002';
    END IF;
    IF cardinality(d_sequence) > 0 THEN
        v_count := @.remove(v_now, d_sequence, d_token, d_queue);
    END IF;
    IF cardinality(s_id) > 0 OR cardinality(s_unmatched) > 0 THEN
        v_sequences := @.store(
            v_now, v_all, s_queue, s_at, s_ttl, s_window, s_id, s_session, s_properties, s_body, s_shares,
            s_dead_letter, s_seen, s_number, g_of, g_queue, g_number, s_unmatched);
        IF array_position(v_sequences, NULL) IS NOT NULL THEN
            UPDATE @.receipts r SET sequences = v_sequences WHERE r.writer = p_writer AND r.number = p_number;
        END IF;
        place := 0;
        sequences := v_sequences;
        RETURN NEXT;
    END IF;
    FOR i IN 1 .. coalesce(cardinality(l_queue), 0) LOOP
        IF @.is_due(v_now, l_queue[i]) THEN
            PERFORM @.release_due(v_now, l_queue[i], 1000);
        END IF;
        v_tids := NULL;
        v_count := 0;
        FOR attempt IN 1 .. 2 LOOP
            IF attempt = 2 THEN  -- fewer than are wanted: because something has to be put away first?
                EXIT WHEN v_count >= l_limit[i];
                v_tids := @.choose(v_now, l_queue[i], l_limit[i] - v_count, l_maximum[i], NULL, l_from[i]);
                EXIT WHEN v_tids IS NULL;
            END IF;
            IF l_duration[i] IS NULL THEN
                RETURN QUERY DELETE FROM @.messages m WHERE @chosen
                    RETURNING i, NULL::float8, m.delivery_count + 1, m.sequence, m.enqueued_at, m.expires, m.id,
                        m.properties, m.dead_letter, @body, NULL::bigint[];
            ELSE
                RETURN QUERY UPDATE @.messages m
                    SET state = 2, due = v_now + l_duration[i], token = l_token, delivery_count = m.delivery_count + 1
                    WHERE @chosen
                    RETURNING i, m.due, m.delivery_count, m.sequence, m.enqueued_at, m.expires, m.id, m.properties,
                        m.dead_letter, @body, NULL::bigint[];
            END IF;
            GET DIAGNOSTICS v_count = ROW_COUNT;
        END LOOP;
    END LOOP;
    IF cardinality(u_queue) > 0 THEN
        IF cardinality(u_queue) > (SELECT count(*) FROM @.queues q WHERE q.id = ANY (u_queue)) THEN
            RAISE EXCEPTION 'the queues have changed' USING ERRCODE = 'RD002';  -- one was deleted meanwhile
        END IF;
        -- a process that has the row is noting the same, or changing the queue
        UPDATE @.queues q SET used_at = v_now
        WHERE q.id IN (SELECT o.id FROM @.queues o WHERE o.id = ANY (u_queue) FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
END $redrive$;

-- What a user's own transaction calls: sends and completions, as JSON, since every driver can pass a text.
CREATE OR REPLACE FUNCTION @.within(p_now float8, p_call text) RETURNS bigint[] LANGUAGE plpgsql AS $redrive$
DECLARE
    v_call jsonb := p_call::jsonb;
    v_now float8 := @.instant(p_now);
    v_sequences bigint[] := '{}';
BEGIN
    -- not an error, which would end the user's transaction; and what it sees may be older than what we know
    IF EXISTS (
        SELECT FROM jsonb_array_elements(v_call -> 'queues') k JOIN @.queues q ON q.name = k ->> 0
        WHERE q.id <> (k ->> 1)::integer OR q.version > (k ->> 2)::integer)
    THEN
        RETURN NULL;
    END IF;
    IF jsonb_array_length(v_call -> 'complete') > 0 THEN
        PERFORM @.remove(
            v_now, array_agg((c ->> 0)::bigint), array_agg((c ->> 1)::bigint), array_agg(coalesce(q.id, 0)))
        FROM jsonb_array_elements(v_call -> 'complete') c LEFT JOIN @.queues q ON q.name = c ->> 2;
    END IF;
    IF jsonb_array_length(v_call -> 'send') + jsonb_array_length(v_call -> 'unmatched') > 0 THEN
        SELECT @.store(
            v_now, @.new_sequences(count(*)::integer + jsonb_array_length(v_call -> 'legs')),
            array_agg(q.id ORDER BY n),
            array_agg((s ->> 'at')::float8 ORDER BY n),
            array_agg((s ->> 'ttl')::float8 ORDER BY n), array_agg((s ->> 'window')::float8 ORDER BY n),
            array_agg(s ->> 'id' ORDER BY n), array_agg(s ->> 'session' ORDER BY n),
            array_agg(s ->> 'properties' ORDER BY n), array_agg(decode(s ->> 'body', 'base64') ORDER BY n),
            array_agg((s ->> 'shares')::integer ORDER BY n), array_agg(s ->> 'dead_letter' ORDER BY n),
            array_agg((s ->> 'seen')::integer ORDER BY n), array_agg((s ->> 'number')::integer ORDER BY n),
            (SELECT array_agg((g ->> 0)::integer) FROM jsonb_array_elements(v_call -> 'legs') g),
            (SELECT array_agg((g ->> 1)::integer) FROM jsonb_array_elements(v_call -> 'legs') g),
            (SELECT array_agg((g ->> 2)::integer) FROM jsonb_array_elements(v_call -> 'legs') g),
            ARRAY (SELECT u::integer FROM jsonb_array_elements_text(v_call -> 'unmatched') u))
        INTO v_sequences
        FROM jsonb_array_elements(v_call -> 'send') WITH ORDINALITY e (s, n)
            JOIN @.queues q ON q.id = (s ->> 'queue')::integer;
        PERFORM pg_notify(v_call ->> 'channel', w) FROM jsonb_array_elements_text(v_call -> 'woken') w;
    END IF;
    RETURN coalesce(v_sequences, '{}');
END $redrive$;
"""


def fan_out_migration(chosen: str, body: str, plans: str) -> str:
    """Return the migration.

    Args:
        chosen: which messages a receive takes.
        body: a message's body: its own, or one that it shares with others.
        plans: the settings of functions whose plans must not change.
    """
    return _FUNCTIONS.replace("@chosen", chosen).replace("@body", body).replace("@plans", plans)
