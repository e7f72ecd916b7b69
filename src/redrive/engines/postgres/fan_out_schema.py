# SPDX-License-Identifier: MIT
"""The migration that makes fan-out cheaper on PostgreSQL, and lets a topic remember the ids of its messages.

A message that several subscriptions get in the same way goes to the database once, and so does the list of their queues
for all messages that the same ones get. Before, each had a row of its own with its id and its properties. Bodies that
are no longer used are removed by one statement for all messages that are completed together.
"""

_FUNCTIONS = """
DROP FUNCTION @.exchange;
DROP FUNCTION @.store;

-- Count down how many messages use these bodies, which are in order, and remove those that none uses any more. The
-- index gives them in order, so that two processes that complete messages of one topic do not wait for each other.
CREATE FUNCTION @.release_contents(p_contents bigint[], p_counts bigint[]) RETURNS void LANGUAGE plpgsql
@plans SET enable_bitmapscan = off AS $redrive$
DECLARE
    v_unused bigint[];
BEGIN
    WITH counted AS (
        UPDATE @.content_uses c SET uses = c.uses - p_counts[width_bucket(c.id, p_contents)]
        WHERE c.id = ANY (p_contents)
        RETURNING c.id, c.uses)
    SELECT array_agg(counted.id) INTO v_unused FROM counted WHERE counted.uses = 0;
    IF v_unused IS NOT NULL THEN
        DELETE FROM @.content_uses c WHERE c.id = ANY (v_unused);
        DELETE FROM @.contents c WHERE c.id = ANY (v_unused);
    END IF;
END $redrive$;

-- Whatever removes a message releases its body, unless it says that it releases those of all its messages together.
DROP TRIGGER messages_removed ON @.messages;
CREATE TRIGGER messages_removed AFTER DELETE ON @.messages
    FOR EACH ROW WHEN (
        old.content IS NOT NULL AND current_setting('redrive.releases', true) IS DISTINCT FROM 'together')
    EXECUTE FUNCTION @.release_content();

-- Remove locked messages, which are in order; one whose lock is not good ends the transaction. One queue may stand for
-- all, and one token.
CREATE OR REPLACE FUNCTION @.remove(p_now float8, p_sequence bigint[], p_token bigint[], p_queue integer[])
RETURNS integer LANGUAGE plpgsql @plans AS $redrive$
DECLARE
    v_removed integer;
    v_contents bigint[];
    v_counts bigint[];
BEGIN
    IF cardinality(p_sequence) = 1 THEN  -- there is nothing to do together
        DELETE FROM @.messages m
        WHERE m.sequence = p_sequence[1] AND m.token = p_token[1] AND m.queue = p_queue[1] AND m.due > p_now;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a lock was lost' USING ERRCODE = 'RD001';
        END IF;
        RETURN 1;
    END IF;
    PERFORM set_config('redrive.releases', 'together', true);
    WITH gone AS (
        DELETE FROM @.messages m
        WHERE m.sequence = ANY (p_sequence) AND m.due > p_now
            AND m.token = coalesce(p_token[width_bucket(m.sequence, p_sequence)], p_token[1])
            AND m.queue = coalesce(p_queue[width_bucket(m.sequence, p_sequence)], p_queue[1])
        RETURNING m.content)
    SELECT coalesce(sum(g.count), 0), array_agg(g.content ORDER BY g.content) FILTER (WHERE g.content IS NOT NULL),
        array_agg(g.count ORDER BY g.content) FILTER (WHERE g.content IS NOT NULL)
    INTO v_removed, v_contents, v_counts
    FROM (SELECT gone.content, count(*) AS count FROM gone GROUP BY gone.content) g;
    PERFORM set_config('redrive.releases', '', true);
    IF v_removed <> cardinality(p_sequence) THEN
        RAISE EXCEPTION 'a lock was lost' USING ERRCODE = 'RD001';
    END IF;
    IF v_contents IS NOT NULL THEN
        PERFORM @.release_contents(v_contents, v_counts);
    END IF;
    RETURN v_removed;
END $redrive$;

-- The numbers of messages, among those of messages and their legs; without legs they are all. If each message has as
-- many legs as any other, it needs not be said which they are.
CREATE FUNCTION @.own_sequences(p_sequences bigint[], p_number integer[], p_legs integer[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE AS $redrive$
    SELECT CASE
        WHEN p_legs IS NULL THEN p_sequences
        WHEN p_number IS NULL THEN ARRAY (
            SELECT p_sequences[n] FROM generate_series(1, cardinality(p_sequences), p_legs[1] + 1) n ORDER BY n)
        ELSE ARRAY (
            SELECT p_sequences[n.number] FROM unnest(p_number) WITH ORDINALITY AS n (number, place) ORDER BY n.place)
        END
$redrive$;

"""

_STORE = """\
-- Store messages under these numbers; return them, with NULL for each duplicate. One queue may stand for all. A message
-- that shares its body has the place of the first that does, which has the body. One with a reason is a dead letter.
-- What more queues get just as the first does are the legs of its message: how many, and how many queues stand before
-- theirs in the list, for each message or once for all. They share its body, and their numbers follow its own. If a
-- topic remembers ids, the first message names the topic, and if that one is a duplicate, no other is stored.
CREATE FUNCTION @.store(
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
@legs    INSERT INTO @.messages
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

"""

_EXCHANGE = """\
-- Everything that a group of callers wants, in one transaction: remove, then store, then lock.
CREATE FUNCTION @.exchange(
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
) LANGUAGE plpgsql ROWS 10 SET lock_timeout = '1s' @plans AS $redrive$
DECLARE
    v_now float8 := @.instant(p_now);
    v_all bigint[];
    v_sequences bigint[];
    v_tids tid[];
    v_count integer;
BEGIN
    IF cardinality(s_id) > 0 THEN
        v_all := @numbers;
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

"""

_WITHIN = """\
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
            v_now, array_agg(d.sequence ORDER BY d.sequence), array_agg(d.token ORDER BY d.sequence),
            array_agg(d.queue ORDER BY d.sequence))
        FROM (SELECT (c ->> 0)::bigint AS sequence, (c ->> 1)::bigint AS token, coalesce(q.id, 0) AS queue
            FROM jsonb_array_elements(v_call -> 'complete') c LEFT JOIN @.queues q ON q.name = c ->> 2) d;
    END IF;
    IF jsonb_array_length(v_call -> 'send') + jsonb_array_length(v_call -> 'unmatched') > 0 THEN
        SELECT @.store(
            v_now, @.new_sequences(CASE WHEN count(*) > 0 THEN (v_call ->> 'count')::integer END),
            array_agg(q.id ORDER BY n),
            array_agg((s ->> 'at')::float8 ORDER BY n),
            array_agg((s ->> 'ttl')::float8 ORDER BY n), array_agg((s ->> 'window')::float8 ORDER BY n),
            array_agg(s ->> 'id' ORDER BY n), array_agg(s ->> 'session' ORDER BY n),
            array_agg(s ->> 'properties' ORDER BY n), array_agg(decode(s ->> 'body', 'base64') ORDER BY n),
            array_agg((s ->> 'shares')::integer ORDER BY n), array_agg(s ->> 'dead_letter' ORDER BY n),
            array_agg((s ->> 'seen')::integer ORDER BY n), array_agg((s ->> 'legs')::integer ORDER BY n),
            array_agg((s ->> 'leg_from')::integer ORDER BY n), array_agg((s ->> 'number')::integer ORDER BY n),
            ARRAY (SELECT g::integer FROM jsonb_array_elements_text(v_call -> 'legs') WITH ORDINALITY g (g, n)
                ORDER BY g.n),
            ARRAY (SELECT u::integer FROM jsonb_array_elements_text(v_call -> 'unmatched') u))
        INTO v_sequences
        FROM jsonb_array_elements(v_call -> 'send') WITH ORDINALITY e (s, n)
            JOIN @.queues q ON q.id = (s ->> 'queue')::integer;
        PERFORM pg_notify(v_call ->> 'channel', w) FROM jsonb_array_elements_text(v_call -> 'woken') w;
    END IF;
    RETURN coalesce(v_sequences, '{}');
END $redrive$;
"""


_ONE_BY_ONE = "ARRAY (SELECT nextval('@.message_sequence') FROM generate_series(1, s_count))"


def fan_out_migration(chosen: str, body: str, plans: str) -> str:
    """Return the migration.

    Args:
        chosen: which messages a receive takes.
        body: a message's body: its own, or one that it shares with others.
        plans: the settings of functions whose plans must not change.
    """
    functions = _FUNCTIONS + store_function("") + exchange_function(_ONE_BY_ONE, chosen, body, plans) + _WITHIN
    return functions.replace("@plans", plans)


def store_function(legs: str) -> str:
    """Return the function that stores messages.

    Args:
        legs: how it stores messages that all go to the same queues; without it, as all others.
    """
    return _STORE.replace("@legs", legs)


def exchange_function(numbers: str, chosen: str, body: str, plans: str) -> str:
    """Return the function that does what a group of callers wants.

    Args:
        numbers: the numbers of the messages that it stores.
        chosen: which messages a receive takes.
        body: a message's body: its own, or one that it shares with others.
        plans: the settings of functions whose plans must not change.
    """
    return (
        _EXCHANGE.replace("@numbers", numbers)
        .replace("@chosen", chosen)
        .replace("@body", body)
        .replace("@plans", plans)
    )
