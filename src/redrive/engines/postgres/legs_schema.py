# SPDX-License-Identifier: MIT
"""The migration that makes each subscription of a topic cheaper for the sender on PostgreSQL.

An event with ten subscriptions is ten rows, so what one of them costs decides how fast a topic accepts events.
"""

from redrive.engines.postgres.fan_out_schema import exchange_function, store_function

_BLOCK = 16

# A number from the sequence costs a fifteenth of what a row does, so they are taken in blocks. Each call takes its own,
# and what is left of the last block is never used: kept for later, its numbers would be lower than those of messages
# that others have sent meanwhile.
_NUMBERS = f"""ARRAY (
            SELECT n FROM (
                    SELECT nextval('@.message_sequence') AS first FROM generate_series(1, @count, {_BLOCK})) AS block
                CROSS JOIN LATERAL generate_series(block.first, block.first + {_BLOCK - 1}) AS n
            LIMIT @count)"""

_TABLES = f"""
ALTER SEQUENCE @.message_sequence INCREMENT BY {_BLOCK};
-- Only versions of one message have the same entry, so looking for others whenever a page is full is in vain.
ALTER INDEX @.messages_ready SET (deduplicate_items = off);

CREATE OR REPLACE FUNCTION @.new_sequences(p_count integer) RETURNS bigint[] LANGUAGE sql VOLATILE AS
$redrive$ SELECT {_NUMBERS.replace("@count", "p_count")} WHERE p_count > 0 $redrive$;

"""

_LEGS = """\
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
"""


def legs_migration(chosen: str, body: str, plans: str) -> str:
    """Return the migration.

    Args:
        chosen: which messages a receive takes.
        body: a message's body: its own, or one that it shares with others.
        plans: the settings of functions whose plans must not change.
    """
    functions = store_function(_LEGS) + exchange_function(_NUMBERS.replace("@count", "s_count"), chosen, body, plans)
    return _TABLES + functions.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
