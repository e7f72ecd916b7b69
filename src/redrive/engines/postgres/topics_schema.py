# SPDX-License-Identifier: MIT
"""The migration that brings topics to the PostgreSQL schema.

A message that a topic gives to several subscriptions is a row for each of them, and its body is stored once. How many
rows use it is counted apart from it: a count that is changed with every completion must not rewrite the body.
"""

_TABLES = """
ALTER TABLE @.queues
    ADD COLUMN topic jsonb,  -- the settings of a topic
    ADD COLUMN subscribes integer,  -- of a subscription: the topic
    ADD COLUMN rule jsonb,  -- and which messages it gets
    ADD COLUMN unmatched bigint NOT NULL DEFAULT 0;
CREATE INDEX queues_subscribes ON @.queues (subscribes) WHERE subscribes IS NOT NULL;

CREATE TABLE @.contents (id bigint PRIMARY KEY, body bytea NOT NULL);
CREATE TABLE @.content_uses (id bigint PRIMARY KEY, uses integer NOT NULL) WITH (fillfactor = 50);
ALTER TABLE @.messages ADD COLUMN content bigint, ALTER COLUMN body DROP NOT NULL;
CREATE INDEX messages_scheduled_content ON @.messages (content) WHERE content IS NOT NULL AND state = 1;
"""

_FUNCTIONS = """
CREATE FUNCTION @.release_content() RETURNS trigger LANGUAGE plpgsql @plans AS $redrive$
BEGIN
    UPDATE @.content_uses c SET uses = c.uses - 1 WHERE c.id = old.content;
    DELETE FROM @.content_uses c WHERE c.id = old.content AND c.uses = 0;
    IF FOUND THEN
        DELETE FROM @.contents c WHERE c.id = old.content;
    END IF;
    RETURN NULL;
END $redrive$;

CREATE TRIGGER messages_removed AFTER DELETE ON @.messages
    FOR EACH ROW WHEN (old.content IS NOT NULL) EXECUTE FUNCTION @.release_content();

CREATE OR REPLACE FUNCTION @.delete_queue(p_queue integer) RETURNS void LANGUAGE plpgsql AS $redrive$
DECLARE
    v_ids integer[];
BEGIN
    WITH subscriptions AS (SELECT q.id FROM @.queues q WHERE q.subscribes = p_queue),
    gone AS (
        DELETE FROM @.queues q
        WHERE q.id = p_queue OR q.source = p_queue OR q.id IN (SELECT s.id FROM subscriptions s)
            OR q.source IN (SELECT s.id FROM subscriptions s)
        RETURNING q.id)
    SELECT array_agg(gone.id) INTO v_ids FROM gone;
    INSERT INTO @.deleted_queues SELECT unnest(v_ids);
    PERFORM @.drop_messages(id) FROM unnest(v_ids) id;
END $redrive$;

DROP FUNCTION @.exchange;
DROP FUNCTION @.store;

-- Store messages under these numbers; return them, with NULL for each duplicate. One queue may stand for all. A message
-- that shares its body has the place of the first that does, which has the body. One with a reason is a dead letter.
CREATE FUNCTION @.store(
    p_now float8, p_sequences bigint[], p_queue integer[], p_at float8[], p_ttl float8[], p_window float8[],
    p_id text[], p_session text[], p_properties text[], p_body bytea[], p_shares integer[], p_dead_letter text[],
    p_unmatched integer[]
) RETURNS bigint[] LANGUAGE plpgsql AS $redrive$
DECLARE
    v_sequences bigint[] := p_sequences;
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
                coalesce(p_queue[i], p_queue[1]),
                CASE WHEN octet_length(p_id[i]) <= 2000 THEN p_id[i] ELSE 'md5 ' || md5(p_id[i]) END,
                p_now + p_window[i])
            ON CONFLICT (queue, id) DO UPDATE SET until = excluded.until WHERE seen.until <= p_now;
            IF NOT FOUND THEN
                v_sequences[i] := NULL;
            END IF;
        END LOOP;
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
        SELECT p_sequences[s.shares], count(*) FROM unnest(v_sequences, p_shares) AS s (sequence, shares)
        WHERE s.sequence IS NOT NULL AND s.shares IS NOT NULL GROUP BY s.shares RETURNING id)
    INSERT INTO @.contents (id, body)
    SELECT used.id, s.body FROM used JOIN unnest(p_sequences, p_body) AS s (sequence, body) ON s.sequence = used.id;
    INSERT INTO @.messages
        (sequence, queue, state, due, delivery_count, enqueued_at, expires, id, session, properties, dead_letter, body,
        content)
    SELECT s.sequence, coalesce(s.queue, p_queue[1]), CASE WHEN s.at > p_now THEN 1 ELSE 0 END,
        CASE WHEN s.at > p_now THEN s.at END, 0, p_now, greatest(s.at, p_now) + s.ttl, s.id, s.session,
        s.properties, s.dead_letter, CASE WHEN s.shares IS NULL THEN s.body END, p_sequences[s.shares]
    FROM unnest(v_sequences, p_queue, p_at, p_ttl, p_id, p_session, p_properties, p_body, p_shares, p_dead_letter)
        AS s (sequence, queue, at, ttl, id, session, properties, body, shares, dead_letter)
    WHERE s.sequence IS NOT NULL;
    RETURN v_sequences;
END $redrive$;

-- Everything that a group of callers wants, in one transaction: remove, then store, then lock.
CREATE FUNCTION @.exchange(
    p_now float8, p_queues integer[], p_versions integer[], p_writer bigint, p_number bigint,
    d_sequence bigint[], d_token bigint[], d_queue integer[],
    s_queue integer[], s_at float8[], s_ttl float8[], s_window float8[], s_id text[], s_session text[],
    s_properties text[], s_body bytea[], s_shares integer[], s_dead_letter text[], s_unmatched integer[],
    l_queue integer[], l_limit integer[], l_maximum integer[], l_duration float8[], l_from bigint[], l_token bigint,
    u_queue integer[]
) RETURNS TABLE (
    place integer, due float8, delivery_count integer, sequence bigint, enqueued_at float8, expires float8, id text,
    properties text, dead_letter text, body bytea, sequences bigint[]
) LANGUAGE plpgsql ROWS 10 SET lock_timeout = '1s' @plans AS $redrive$
DECLARE
    v_now float8 := @.instant(p_now);
    v_sequences bigint[];
    v_tids tid[];
    v_count integer;
BEGIN
    IF cardinality(s_id) > 0 THEN
        v_sequences := ARRAY (SELECT nextval('@.message_sequence') FROM generate_series(1, cardinality(s_id)));
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
            v_now, v_sequences, s_queue, s_at, s_ttl, s_window, s_id, s_session, s_properties, s_body, s_shares,
            s_dead_letter, s_unmatched);
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
            v_now, @.new_sequences(count(*)::integer), array_agg(q.id ORDER BY n),
            array_agg((s ->> 'at')::float8 ORDER BY n),
            array_agg((s ->> 'ttl')::float8 ORDER BY n), array_agg((s ->> 'window')::float8 ORDER BY n),
            array_agg(s ->> 'id' ORDER BY n), array_agg(s ->> 'session' ORDER BY n),
            array_agg(s ->> 'properties' ORDER BY n), array_agg(decode(s ->> 'body', 'base64') ORDER BY n),
            array_agg((s ->> 'shares')::integer ORDER BY n), array_agg(s ->> 'dead_letter' ORDER BY n),
            ARRAY (SELECT u::integer FROM jsonb_array_elements_text(v_call -> 'unmatched') u))
        INTO v_sequences
        FROM jsonb_array_elements(v_call -> 'send') WITH ORDINALITY e (s, n)
            JOIN @.queues q ON q.id = (s ->> 'queue')::integer;
        PERFORM pg_notify(v_call ->> 'channel', w) FROM jsonb_array_elements_text(v_call -> 'woken') w;
    END IF;
    RETURN coalesce(v_sequences, '{}');
END $redrive$;
"""

BODY = "coalesce(m.body, (SELECT c.body FROM @.contents c WHERE c.id = m.content))"
"""A message's body: its own, or one that it shares with others."""


def topics_migration(chosen: str, plans: str) -> str:
    """Return the migration.

    Args:
        chosen: which messages a receive takes.
        plans: the settings of functions whose plans must not change.
    """
    return (_TABLES + _FUNCTIONS).replace("@chosen", chosen).replace("@body", BODY).replace("@plans", plans)
