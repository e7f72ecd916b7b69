# SPDX-License-Identifier: MIT
"""The PostgreSQL schema, by numbered migrations with the numbers and names of every other engine's.

States are the numbers of ``redrive.broker.lifecycle.State``; times are seconds since 1970. What concurrent callers do
all the time is one function, ``exchange``: one round trip and one transaction for a whole group of them. It is in the
database so that nothing has to go back and forth, and so that a user's own transaction can call it too.

In the scripts ``@.`` stands for the schema.
"""

from functools import cache

from redrive.engines.postgres import expected_schema
from redrive.engines.postgres.driver import Connection
from redrive.engines.postgres.fan_out_schema import fan_out_migration
from redrive.engines.postgres.history_schema import counting_functions
from redrive.engines.postgres.journeys_schema import journeys_migration
from redrive.engines.postgres.legs_schema import legs_migration
from redrive.engines.postgres.session_settings import in_transaction
from redrive.engines.postgres.topics_schema import BODY, topics_migration
from redrive.engines.sql.access.schema import ACCESS, REDACTIONS, REQUESTS, SIGN_INS, VIEWS
from redrive.engines.sql.dialects import POSTGRES
from redrive.engines.sql.history.schema import HISTORY, POSTGRES_TRIGGER
from redrive.engines.sql.migrations import pending
from redrive.engines.sql.notifications.schema import WEBHOOKS
from redrive.engines.sql.pipeline.schema import ITEM_INDEX, PIPELINES
from redrive.engines.sql.recovery.counts_schema import POSTGRES_COUNTS
from redrive.engines.sql.recovery.group_snooze_schema import GROUP_SNOOZE
from redrive.engines.sql.recovery.schema import KEYS, RECOVERY, TRACES
from redrive.engines.sql.recovery.settled_order_schema import SETTLED_ORDER
from redrive.engines.sql.routes.schema import ROUTES
from redrive.errors import SchemaMismatch, UsageError

MESSAGES = """
CREATE TABLE @.queues (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    source integer,  -- of a dead-letter queue: whose
    dead integer,  -- the number of its dead-letter queue; its own, if it is one
    lock_duration float8 NOT NULL,
    max_delivery_count integer NOT NULL,
    default_ttl float8,
    dead_letter_on_expiration boolean NOT NULL,
    auto_delete_on_idle float8,
    duplicate_detection float8,
    requires_session boolean NOT NULL,
    max_message_bytes integer NOT NULL,
    version integer NOT NULL DEFAULT 1,  -- changes with every change of the settings
    over_delivered text NOT NULL,  -- what is told of a message that dies of too many deliveries
    expired text NOT NULL,  -- and of one that dies of its age
    created_at float8 NOT NULL,
    used_at float8 NOT NULL
);

CREATE SEQUENCE @.message_sequence;
CREATE TABLE @.messages (
    sequence bigint PRIMARY KEY,
    queue integer NOT NULL,
    state smallint NOT NULL,
    due float8,  -- when its lock ends, or when it becomes available
    token bigint,
    delivery_count integer NOT NULL,
    enqueued_at float8 NOT NULL,
    expires float8,
    id text NOT NULL,
    session text,  -- only in queues that are received by session
    properties text,
    dead_letter text,
    body bytea NOT NULL  -- a large one is stored apart, and not written again when its message is locked
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

-- A receive reads the first entries of one place in one index. No index has what is locked in order of its number:
-- every lock would write it. "+ 0" keeps the planner from the primary key, which has the same order: it would walk over
-- all that is locked or scheduled at the head, in the hope that the next row is ready.
CREATE INDEX messages_ready ON @.messages (queue, (sequence + 0)) WHERE state = 0;
CREATE INDEX messages_locks ON @.messages (queue, due) WHERE state IN (2, 4);
CREATE INDEX messages_scheduled ON @.messages (queue, due) WHERE state = 1;
CREATE INDEX messages_aside ON @.messages (queue, state, (sequence + 0)) WHERE state IN (1, 3);
CREATE INDEX messages_expiring ON @.messages (expires) WHERE expires IS NOT NULL AND state IN (0, 3);
CREATE INDEX messages_sessions ON @.messages (queue, session, (sequence + 0)) WHERE session IS NOT NULL;

CREATE TABLE @.sessions (
    queue integer NOT NULL,
    session text NOT NULL,
    token bigint,
    locked_until float8,
    state bytea,
    PRIMARY KEY (queue, session)
);

CREATE TABLE @.seen_ids (queue integer NOT NULL, id text NOT NULL, until float8 NOT NULL, PRIMARY KEY (queue, id));
CREATE INDEX seen_ids_until ON @.seen_ids (until);

-- What was committed, for a writer who lost the answer. Asking is inserting the same receipt: either it is there, or it
-- is now, and what was on its way can never be committed.
CREATE TABLE @.receipts (
    writer bigint NOT NULL,
    number bigint NOT NULL,
    sequences bigint[],
    is_asked boolean NOT NULL DEFAULT false,  -- inserted by somebody who asked: it stands in the way, and has to stay
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (writer, number)
);

-- What was sent to a queue at the very moment at which it was deleted is still to be removed.
CREATE TABLE @.deleted_queues (id integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
"""

FUNCTIONS = """
CREATE FUNCTION @.instant(p_now float8) RETURNS float8 LANGUAGE sql VOLATILE AS
$redrive$ SELECT coalesce(p_now, extract(epoch FROM clock_timestamp())::float8) $redrive$;

-- Count a queue's messages, state by state, since that is how they are indexed.
CREATE FUNCTION @.count_messages(
    p_queue integer, OUT ready bigint, OUT scheduled bigint, OUT locked bigint, OUT deferred bigint,
    OUT last_sequence bigint
) LANGUAGE sql @plans AS $redrive$
    SELECT r.n, s.n, l.n, d.n, coalesce(greatest(r.last, s.last, l.last, d.last), 0)
    FROM (SELECT count(*) AS n, max(m.sequence) AS last FROM @.messages m WHERE m.queue = p_queue AND m.state = 0) r,
        (SELECT count(*) AS n, max(m.sequence) AS last FROM @.messages m WHERE m.queue = p_queue AND m.state = 1) s,
        (SELECT count(*) AS n, max(m.sequence) AS last FROM @.messages m
            WHERE m.queue = p_queue AND m.state IN (2, 4)) l,
        (SELECT count(*) AS n, max(m.sequence) AS last FROM @.messages m WHERE m.queue = p_queue AND m.state = 3) d
$redrive$;

CREATE FUNCTION @.drop_messages(p_queue integer) RETURNS void LANGUAGE plpgsql @plans AS $redrive$
BEGIN
    DELETE FROM @.messages m WHERE m.queue = p_queue AND m.state = 0;
    DELETE FROM @.messages m WHERE m.queue = p_queue AND m.state = 1;
    DELETE FROM @.messages m WHERE m.queue = p_queue AND m.state IN (2, 4);
    DELETE FROM @.messages m WHERE m.queue = p_queue AND m.state = 3;
    DELETE FROM @.sessions s WHERE s.queue = p_queue;
    DELETE FROM @.seen_ids s WHERE s.queue = p_queue;
END $redrive$;

CREATE FUNCTION @.delete_queue(p_queue integer) RETURNS void LANGUAGE plpgsql AS $redrive$
DECLARE
    v_ids integer[];
BEGIN
    WITH gone AS (DELETE FROM @.queues q WHERE q.id = p_queue OR q.source = p_queue RETURNING q.id)
    SELECT array_agg(gone.id) INTO v_ids FROM gone;
    INSERT INTO @.deleted_queues SELECT unnest(v_ids);
    PERFORM @.drop_messages(id) FROM unnest(v_ids) id;
END $redrive$;

-- Drop or bury messages that are ready or deferred and may not be delivered any more.
CREATE FUNCTION @.put_away(p_now float8, p_sequences bigint[]) RETURNS void LANGUAGE plpgsql @plans AS $redrive$
BEGIN
    DELETE FROM @.messages m USING @.queues q
    WHERE m.sequence = ANY (p_sequences) AND q.id = m.queue AND m.expires <= p_now AND NOT q.dead_letter_on_expiration;
    UPDATE @.messages m
    SET queue = q.dead, state = 0, due = NULL, token = NULL, delivery_count = 0, expires = NULL, session = NULL,
        dead_letter = CASE WHEN m.expires <= p_now THEN q.expired ELSE q.over_delivered END
    FROM @.queues q
    WHERE m.sequence = ANY (p_sequences) AND q.id = m.queue;
END $redrive$;

-- End locks that are over and bring in what is due in one queue; return how many, and how many of them had had enough.
CREATE FUNCTION @.release_due(p_now float8, p_queue integer, p_limit integer, OUT released integer, OUT buried integer)
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
    END IF;
END $redrive$;

-- Choose the next messages that are ready, and keep others from them; what may not be delivered is put away on the way.
CREATE FUNCTION @.choose(
    p_now float8, p_queue integer, p_limit integer, p_maximum integer, p_session text, p_from bigint
) RETURNS tid[] LANGUAGE plpgsql @plans AS $redrive$
DECLARE
    v_tids tid[];
    v_over bigint[];
BEGIN
    FOR page IN 1 .. 10 LOOP
        IF p_session IS NULL THEN
            SELECT array_agg(f.tid), array_agg(f.sequence) FILTER (WHERE f.is_over) INTO v_tids, v_over FROM (
                SELECT m.ctid AS tid, m.sequence,
                    m.delivery_count >= p_maximum OR coalesce(m.expires <= p_now, false) AS is_over
                FROM @.messages m WHERE m.queue = p_queue AND m.state = 0 AND m.sequence + 0 >= p_from
                ORDER BY m.sequence + 0 LIMIT p_limit FOR UPDATE SKIP LOCKED) f;
        ELSE
            SELECT array_agg(f.tid), array_agg(f.sequence) FILTER (WHERE f.is_over) INTO v_tids, v_over FROM (
                SELECT m.ctid AS tid, m.sequence,
                    m.delivery_count >= p_maximum OR coalesce(m.expires <= p_now, false) AS is_over
                FROM @.messages m WHERE m.queue = p_queue AND m.session = p_session AND m.state = 0
                ORDER BY m.sequence + 0 LIMIT p_limit FOR UPDATE SKIP LOCKED) f;
        END IF;
        IF v_over IS NULL THEN
            RETURN v_tids;
        END IF;
        PERFORM @.put_away(p_now, v_over);
    END LOOP;
    SELECT array_agg(f.tid) INTO v_tids FROM (  -- there are many: upkeep will see to the rest
        SELECT m.ctid AS tid FROM @.messages m
        WHERE m.queue = p_queue AND (p_session IS NULL OR m.session = p_session) AND m.state = 0
            AND m.delivery_count < p_maximum AND (m.expires IS NULL OR m.expires > p_now)
        ORDER BY m.sequence + 0 LIMIT p_limit FOR UPDATE SKIP LOCKED) f;
    RETURN v_tids;
END $redrive$;

-- Say whether there is anything in a queue for release_due to do: mostly not, and to see that is cheap.
CREATE FUNCTION @.is_due(p_now float8, p_queue integer) RETURNS boolean LANGUAGE plpgsql @plans AS $redrive$
BEGIN
    RETURN (SELECT m.due FROM @.messages m WHERE m.queue = p_queue AND m.state IN (2, 4) AND m.due <= p_now
            ORDER BY m.due LIMIT 1) IS NOT NULL
        OR (SELECT m.due FROM @.messages m WHERE m.queue = p_queue AND m.state = 1 AND m.due <= p_now
            ORDER BY m.due LIMIT 1) IS NOT NULL;
END $redrive$;

CREATE FUNCTION @.new_sequences(p_count integer) RETURNS bigint[] LANGUAGE sql VOLATILE AS
$redrive$ SELECT array_agg(nextval('@.message_sequence')) FROM generate_series(1, p_count) $redrive$;

-- Store messages under these numbers; return them, with NULL for each duplicate. One queue may stand for all.
CREATE FUNCTION @.store(
    p_now float8, p_sequences bigint[], p_queue integer[], p_at float8[], p_ttl float8[], p_window float8[],
    p_id text[], p_session text[], p_properties text[], p_body bytea[]
) RETURNS bigint[] LANGUAGE plpgsql AS $redrive$
DECLARE
    v_sequences bigint[] := p_sequences;
    i integer;
BEGIN
    IF cardinality(array_remove(p_window, NULL)) > 0 THEN
        -- in order of the ids, so that two who send the same ones do not wait for each other
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
    INSERT INTO @.messages
        (sequence, queue, state, due, delivery_count, enqueued_at, expires, id, session, properties, body)
    SELECT s.sequence, coalesce(s.queue, p_queue[1]), CASE WHEN s.at > p_now THEN 1 ELSE 0 END,
        CASE WHEN s.at > p_now THEN s.at END, 0, p_now, greatest(s.at, p_now) + s.ttl, s.id, s.session,
        s.properties, s.body
    FROM unnest(v_sequences, p_queue, p_at, p_ttl, p_id, p_session, p_properties, p_body)
        AS s (sequence, queue, at, ttl, id, session, properties, body)
    WHERE s.sequence IS NOT NULL;
    RETURN v_sequences;
END $redrive$;

-- Remove locked messages; one whose lock is not good ends the transaction. One queue may stand for all.
CREATE FUNCTION @.remove(p_now float8, p_sequence bigint[], p_token bigint[], p_queue integer[])
RETURNS integer LANGUAGE plpgsql @plans AS $redrive$
DECLARE
    v_removed integer;
BEGIN
    DELETE FROM @.messages m USING unnest(p_sequence, p_token, p_queue) AS d (sequence, token, queue)
    WHERE m.sequence = d.sequence AND m.token = d.token AND m.queue = coalesce(d.queue, p_queue[1])
        AND m.due > p_now;
    GET DIAGNOSTICS v_removed = ROW_COUNT;
    IF v_removed <> cardinality(p_sequence) THEN
        RAISE EXCEPTION 'a lock was lost' USING ERRCODE = 'RD001';
    END IF;
    RETURN v_removed;
END $redrive$;

-- Everything that a group of callers wants, in one transaction: remove, then store, then lock.
CREATE FUNCTION @.exchange(
    p_now float8, p_queues integer[], p_versions integer[], p_writer bigint, p_number bigint,
    d_sequence bigint[], d_token bigint[], d_queue integer[],
    s_queue integer[], s_at float8[], s_ttl float8[], s_window float8[], s_id text[], s_session text[],
    s_properties text[], s_body bytea[],
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
    -- first of all, so that whoever asks what became of this waits for its end
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
    IF cardinality(s_id) > 0 THEN
        v_sequences := @.store(
            v_now, v_sequences, s_queue, s_at, s_ttl, s_window, s_id, s_session, s_properties, s_body);
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
                        m.properties, m.dead_letter, m.body, NULL::bigint[];
            ELSE
                RETURN QUERY UPDATE @.messages m
                    SET state = 2, due = v_now + l_duration[i], token = l_token, delivery_count = m.delivery_count + 1
                    WHERE @chosen
                    RETURNING i, m.due, m.delivery_count, m.sequence, m.enqueued_at, m.expires, m.id, m.properties,
                        m.dead_letter, m.body, NULL::bigint[];
            END IF;
            GET DIAGNOSTICS v_count = ROW_COUNT;
        END LOOP;
    END LOOP;
    IF cardinality(u_queue) > 0 THEN
        IF cardinality(u_queue) > (SELECT count(*) FROM @.queues q WHERE q.id = ANY (u_queue)) THEN
            RAISE EXCEPTION 'the queues have changed' USING ERRCODE = 'RD002';  -- one was deleted meanwhile
        END IF;
        -- whoever has the row is noting the same, or changing the queue
        UPDATE @.queues q SET used_at = v_now
        WHERE q.id IN (SELECT o.id FROM @.queues o WHERE o.id = ANY (u_queue) FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
END $redrive$;

-- What a user's own transaction calls: sends and completions, as JSON, since every driver can pass a text.
CREATE FUNCTION @.within(p_now float8, p_call text) RETURNS bigint[] LANGUAGE plpgsql AS $redrive$
DECLARE
    v_call jsonb := p_call::jsonb;
    v_now float8 := @.instant(p_now);
    v_sequences bigint[] := '{}';
BEGIN
    -- not an error, which would end the user's transaction; and what he sees may be older than what we know
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
    IF jsonb_array_length(v_call -> 'send') > 0 THEN
        SELECT @.store(
            v_now, @.new_sequences(count(*)::integer), array_agg(q.id ORDER BY n),
            array_agg((s ->> 'at')::float8 ORDER BY n),
            array_agg((s ->> 'ttl')::float8 ORDER BY n), array_agg((s ->> 'window')::float8 ORDER BY n),
            array_agg(s ->> 'id' ORDER BY n), array_agg(s ->> 'session' ORDER BY n),
            array_agg(s ->> 'properties' ORDER BY n), array_agg(decode(s ->> 'body', 'base64') ORDER BY n))
        INTO v_sequences
        FROM jsonb_array_elements(v_call -> 'send') WITH ORDINALITY e (s, n) JOIN @.queues q ON q.name = s ->> 'queue';
        PERFORM pg_notify(v_call ->> 'channel', s ->> 'queue') FROM jsonb_array_elements(v_call -> 'send') s;
    END IF;
    RETURN v_sequences;
END $redrive$;
"""

# What a receive takes: what choose has chosen, or else what is next, as long as it may be delivered.
CHOSEN = """
    m.ctid = ANY (coalesce(v_tids, ARRAY (
        SELECT n.ctid FROM @.messages n WHERE n.queue = l_queue[i] AND n.state = 0 AND n.sequence + 0 >= l_from[i]
        ORDER BY n.sequence + 0 LIMIT l_limit[i] FOR UPDATE SKIP LOCKED)))
    AND m.delivery_count < l_maximum[i] AND (m.expires IS NULL OR m.expires > v_now)
"""

# A plan that was made while the table was small is kept when it is not any more. Every statement has its index.
PLANS = (
    "SET enable_seqscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off"
    " SET plan_cache_mode = force_generic_plan"
)

# All settings are one value, and those that functions and statements need are also columns, which follow from it. So a
# new setting needs no migration, unless the database itself has to know it.
QUEUE_SETTINGS = """
ALTER TABLE @.queues ADD COLUMN settings jsonb;
UPDATE @.queues SET settings = jsonb_build_object(
    'lock_duration', lock_duration, 'max_delivery_count', max_delivery_count, 'default_ttl', default_ttl,
    'dead_letter_on_expiration', dead_letter_on_expiration, 'auto_delete_on_idle', auto_delete_on_idle,
    'duplicate_detection', duplicate_detection, 'requires_session', requires_session,
    'max_message_bytes', max_message_bytes);
ALTER TABLE @.queues ALTER COLUMN settings SET NOT NULL,
    DROP COLUMN lock_duration, DROP COLUMN max_delivery_count, DROP COLUMN default_ttl,
    DROP COLUMN dead_letter_on_expiration, DROP COLUMN auto_delete_on_idle, DROP COLUMN duplicate_detection,
    DROP COLUMN requires_session, DROP COLUMN max_message_bytes;
ALTER TABLE @.queues
    ADD COLUMN lock_duration float8 NOT NULL
        GENERATED ALWAYS AS ((settings ->> 'lock_duration')::float8) STORED,
    ADD COLUMN max_delivery_count integer NOT NULL
        GENERATED ALWAYS AS ((settings ->> 'max_delivery_count')::integer) STORED,
    ADD COLUMN dead_letter_on_expiration boolean NOT NULL
        GENERATED ALWAYS AS ((settings ->> 'dead_letter_on_expiration')::boolean) STORED,
    ADD COLUMN auto_delete_on_idle float8
        GENERATED ALWAYS AS ((settings ->> 'auto_delete_on_idle')::float8) STORED;
"""

MIGRATIONS: tuple[tuple[str, str], ...] = (
    ("0001_messages", MESSAGES + FUNCTIONS.replace("@chosen", CHOSEN).replace("@plans", PLANS)),
    ("0002_small_bodies", ""),  # PostgreSQL keeps small bodies in the row and large ones apart by itself
    ("0003_recovery", POSTGRES.migration(RECOVERY)),
    ("0004_recovery_keys", POSTGRES.migration(KEYS)),
    ("0005_table_prefix", ""),  # they are in a schema of their own
    ("0006_queue_settings", QUEUE_SETTINGS),
    ("0007_topics", topics_migration(CHOSEN, PLANS)),
    ("0008_routes", POSTGRES.migration(ROUTES)),
    ("0009_fan_out", fan_out_migration(CHOSEN, BODY, PLANS)),
    ("0010_pipelines", POSTGRES.migration(PIPELINES)),
    ("0011_failure_counts", POSTGRES.migration(POSTGRES_COUNTS)),
    ("0012_history", POSTGRES.migration(HISTORY) + POSTGRES_TRIGGER + counting_functions(PLANS)),
    ("0013_journeys", journeys_migration(PLANS)),
    ("0014_access", POSTGRES.migration(ACCESS)),
    ("0015_requests", POSTGRES.migration(REQUESTS)),
    ("0016_item_index", POSTGRES.migration(ITEM_INDEX)),
    ("0017_redactions", POSTGRES.migration(REDACTIONS)),
    ("0018_sign_ins", POSTGRES.migration(SIGN_INS)),
    ("0019_webhooks", POSTGRES.migration(WEBHOOKS)),
    ("0020_shared_traces", POSTGRES.migration(TRACES)),
    ("0021_group_snooze", POSTGRES.migration(GROUP_SNOOZE)),
    ("0022_views", POSTGRES.migration(VIEWS)),
    ("0023_cheaper_legs", legs_migration(CHOSEN, BODY, PLANS)),
    ("0024_settled_order", POSTGRES.migration(SETTLED_ORDER)),
)


QUOTE = "$redrive$"
"""What stands before and after the bodies of functions; nothing within them may have it."""


async def migrate(connection: Connection, schema: str) -> None:
    """Bring the schema up to date in one transaction; safe when two processes do it at once."""
    async with in_transaction(connection):
        encoding = await connection.fetchval("SHOW server_encoding")
        if encoding != "UTF8":  # a message, or the text of an exception that is kept with it, may have any character
            raise UsageError(
                f"the database's encoding is {encoding}, which cannot store every message: create the database with"
                " ENCODING 'UTF8' TEMPLATE template0"
            )
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"redrive {schema}")
        if not await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", schema):
            await connection.execute(f"CREATE SCHEMA {schema}")
        if not await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{schema}.redrive_migrations"):
            await connection.execute(
                f"CREATE TABLE {schema}.redrive_migrations (number integer PRIMARY KEY, name text NOT NULL UNIQUE)"
            )
        done = await connection.fetch(f"SELECT name FROM {schema}.redrive_migrations ORDER BY number")
        for number, name, script in pending(MIGRATIONS, [row["name"] for row in done]):
            if script:
                await connection.execute(script.replace("@.", f"{schema}."))
            await connection.execute(f"INSERT INTO {schema}.redrive_migrations VALUES ($1, $2)", number, name)
        await _check_shape(connection, schema)


async def _check_shape(connection: Connection, schema: str) -> None:
    """See that the tables and functions are those that the migrations make, whatever they made when they were done."""
    rows = await connection.fetch(_COLUMNS, schema)
    there: dict[str, set[str]] = {}
    for table, column in rows:
        there.setdefault(table, set()).add(column)
    known = {row[0] for row in await connection.fetch(_FUNCTIONS, schema)}
    if problem := expected_schema.missing(*_wanted(MIGRATIONS), there, known):
        raise SchemaMismatch(len(MIGRATIONS), len(MIGRATIONS), problem)


@cache
def _wanted(migrations: tuple[tuple[str, str], ...]) -> tuple[dict[str, set[str]], set[str]]:
    scripts = [script for _, script in migrations]
    return expected_schema.tables(scripts), expected_schema.functions(scripts)


_COLUMNS = """
SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = to_regnamespace($1)::oid AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
"""

_FUNCTIONS = "SELECT DISTINCT p.proname FROM pg_proc p WHERE p.pronamespace = to_regnamespace($1)::oid"
