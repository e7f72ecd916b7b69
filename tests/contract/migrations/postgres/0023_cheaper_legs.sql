
ALTER SEQUENCE @.message_sequence INCREMENT BY 16;
-- Only versions of one message have the same entry, so looking for others whenever a page is full is in vain.
ALTER INDEX @.messages_ready SET (deduplicate_items = off);

CREATE OR REPLACE FUNCTION @.new_sequences(p_count integer) RETURNS bigint[] LANGUAGE sql VOLATILE AS
$redrive$ SELECT ARRAY (
            SELECT n FROM (
                    SELECT nextval('@.message_sequence') AS first FROM generate_series(1, p_count, 16)) AS block
                CROSS JOIN LATERAL generate_series(block.first, block.first + 15) AS n
            LIMIT p_count) WHERE p_count > 0 $redrive$;

-- Store messages under these numbers; return them, with NULL for each duplicate. One queue may stand for all. A message
-- that shares its body has the place of the first that does, which has the body. One with a reason is a dead letter.
-- What more queues get just as the first does are the legs of its message: how many, and how many queues stand before
-- theirs in the list, for each message or once for all. They share its body, and their numbers follow its own. If a
-- topic remembers ids, the first message names the topic, and if that one is a duplicate, no other is stored.
CREATE OR REPLACE FUNCTION @.store(
    p_now float8, p_sequences bigint[], p_queue integer[], p_at float8[], p_ttl float8[], p_window float8[],
    p_id text[], p_session text[], p_properties text[], p_body bytea[], p_shares integer[], p_dead_letter text[],
    p_seen integer[], p_legs integer[], p_leg_from integer[], p_number integer[], p_leg_queue integer[],
    p_unmatched integer[]
) RETURNS bigint[] LANGUAGE plpgsql AS $redrive$
DECLARE
    v_own bigint[] := @.own_sequences(p_sequences, p_number, p_legs);
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
    IF p_legs IS NULL AND p_shares IS NULL AND p_dead_letter IS NULL THEN  -- mostly: no topic is among the queues
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
    IF p_shares IS NULL THEN
        INSERT INTO @.content_uses (id, uses)
        SELECT s.sequence, coalesce(s.legs, p_legs[1]) + 1 FROM unnest(v_sequences, p_legs) AS s (sequence, legs)
        WHERE s.sequence IS NOT NULL AND coalesce(s.legs, p_legs[1]) > 0;
        INSERT INTO @.contents (id, body)
        SELECT s.sequence, s.body FROM unnest(v_sequences, p_body, p_legs) AS s (sequence, body, legs)
        WHERE s.sequence IS NOT NULL AND coalesce(s.legs, p_legs[1]) > 0;
    ELSE
        WITH counted AS (
            SELECT s.place, s.body, coalesce(s.shares, s.place) AS first,
                sum(CASE WHEN s.sequence IS NULL THEN 0 ELSE coalesce(s.legs, p_legs[1], 0) + 1 END)
                    OVER (PARTITION BY coalesce(s.shares, s.place)) AS uses
            FROM unnest(v_sequences, p_shares, p_body, p_legs)
                WITH ORDINALITY AS s (sequence, shares, body, legs, place)
            WHERE s.shares IS NOT NULL OR coalesce(s.legs, p_legs[1]) > 0),
        used AS (
            INSERT INTO @.content_uses (id, uses)
            SELECT v_own[c.place], c.uses FROM counted c WHERE c.place = c.first AND c.uses > 0)
        INSERT INTO @.contents (id, body)
        SELECT v_own[c.place], c.body FROM counted c WHERE c.place = c.first AND c.uses > 0;
    END IF;
    IF p_shares IS NULL AND p_dead_letter IS NULL AND p_at IS NULL AND p_session IS NULL AND p_number IS NULL
        AND cardinality(p_queue) = 1 AND cardinality(p_leg_from) = 1
    THEN  -- mostly: all of them are ready now, and go to the same queues
        INSERT INTO @.messages
            (sequence, queue, state, delivery_count, enqueued_at, expires, id, properties, content)
        SELECT p_sequences[(s.place - 1) * (p_legs[1] + 1) + l.place], l.queue, 0, 0, p_now, p_now + s.ttl, s.id,
            s.properties, s.sequence
        FROM unnest(v_sequences, p_ttl, p_id, p_properties) WITH ORDINALITY AS s (sequence, ttl, id, properties, place)
            CROSS JOIN unnest(p_queue || p_leg_queue[p_leg_from[1] + 1 : p_leg_from[1] + p_legs[1]])
                WITH ORDINALITY AS l (queue, place)
        WHERE s.sequence IS NOT NULL;
        RETURN v_sequences;
    END IF;
    INSERT INTO @.messages
        (sequence, queue, state, due, delivery_count, enqueued_at, expires, id, session, properties, dead_letter, body,
        content)
    SELECT p_sequences[coalesce(s.number, (s.place - 1) * (coalesce(p_legs[1], 0) + 1) + 1) + g.leg],
        CASE WHEN g.leg = 0 THEN coalesce(s.queue, p_queue[1])
            ELSE p_leg_queue[coalesce(s.leg_from, p_leg_from[1]) + g.leg] END,
        CASE WHEN s.at > p_now THEN 1 ELSE 0 END, CASE WHEN s.at > p_now THEN s.at END, 0, p_now,
        greatest(s.at, p_now) + s.ttl, s.id, s.session, s.properties, s.dead_letter,
        CASE WHEN s.shares IS NULL AND coalesce(s.legs, p_legs[1], 0) = 0 THEN s.body END,
        CASE WHEN s.shares IS NOT NULL THEN v_own[s.shares] WHEN coalesce(s.legs, p_legs[1]) > 0 THEN s.sequence END
    FROM unnest(
            v_sequences, p_queue, p_at, p_ttl, p_id, p_session, p_properties, p_body, p_shares, p_dead_letter, p_legs,
            p_leg_from, p_number)
            WITH ORDINALITY AS s (
                sequence, queue, at, ttl, id, session, properties, body, shares, dead_letter, legs, leg_from, number,
                place)
        CROSS JOIN LATERAL generate_series(0, coalesce(s.legs, p_legs[1], 0)) AS g (leg)
    WHERE s.sequence IS NOT NULL;
    RETURN v_sequences;
END $redrive$;

-- Everything that a group of callers wants, in one transaction: remove, then store, then lock.
CREATE OR REPLACE FUNCTION @.exchange(
    p_now float8, p_queues integer[], p_versions integer[], p_writer bigint, p_number bigint,
    d_sequence bigint[], d_token bigint[], d_queue integer[],
    s_queue integer[], s_at float8[], s_ttl float8[], s_window float8[], s_id text[], s_session text[],
    s_properties text[], s_body bytea[], s_shares integer[], s_dead_letter text[], s_seen integer[],
    s_legs integer[], s_leg_from integer[], s_number integer[], s_leg_queue integer[], s_unmatched integer[],
    s_count integer,
    l_queue integer[], l_limit integer[], l_maximum integer[], l_duration float8[], l_from bigint[], l_token bigint,
    u_queue integer[]
) RETURNS TABLE (
    place integer, due float8, delivery_count integer, sequence bigint, enqueued_at float8, expires float8, id text,
    properties text, dead_letter text, body bytea, sequences bigint[]
) LANGUAGE plpgsql ROWS 10 SET lock_timeout = '1s' SET enable_seqscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $redrive$
DECLARE
    v_now float8 := @.instant(p_now);
    v_all bigint[];
    v_sequences bigint[];
    v_tids tid[];
    v_count integer;
BEGIN
    IF cardinality(s_id) > 0 THEN
        v_all := ARRAY (
            SELECT n FROM (
                    SELECT nextval('@.message_sequence') AS first FROM generate_series(1, s_count, 16)) AS block
                CROSS JOIN LATERAL generate_series(block.first, block.first + 15) AS n
            LIMIT s_count);
        v_sequences := @.own_sequences(v_all, s_number, s_legs);
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
            s_dead_letter, s_seen, s_legs, s_leg_from, s_number, s_leg_queue, s_unmatched);
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
                RETURN QUERY DELETE FROM @.messages m WHERE 
    m.ctid = ANY (coalesce(v_tids, ARRAY (
        SELECT n.ctid FROM @.messages n WHERE n.queue = l_queue[i] AND n.state = 0 AND n.sequence + 0 >= l_from[i]
        ORDER BY n.sequence + 0 LIMIT l_limit[i] FOR UPDATE SKIP LOCKED)))
    AND m.delivery_count < l_maximum[i] AND (m.expires IS NULL OR m.expires > v_now)

                    RETURNING i, NULL::float8, m.delivery_count + 1, m.sequence, m.enqueued_at, m.expires, m.id,
                        m.properties, m.dead_letter, coalesce(m.body, (SELECT c.body FROM @.contents c WHERE c.id = m.content)), NULL::bigint[];
            ELSE
                RETURN QUERY UPDATE @.messages m
                    SET state = 2, due = v_now + l_duration[i], token = l_token, delivery_count = m.delivery_count + 1
                    WHERE 
    m.ctid = ANY (coalesce(v_tids, ARRAY (
        SELECT n.ctid FROM @.messages n WHERE n.queue = l_queue[i] AND n.state = 0 AND n.sequence + 0 >= l_from[i]
        ORDER BY n.sequence + 0 LIMIT l_limit[i] FOR UPDATE SKIP LOCKED)))
    AND m.delivery_count < l_maximum[i] AND (m.expires IS NULL OR m.expires > v_now)

                    RETURNING i, m.due, m.delivery_count, m.sequence, m.enqueued_at, m.expires, m.id, m.properties,
                        m.dead_letter, coalesce(m.body, (SELECT c.body FROM @.contents c WHERE c.id = m.content)), NULL::bigint[];
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

