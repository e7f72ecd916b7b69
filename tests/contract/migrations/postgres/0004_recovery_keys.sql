
-- what the tags of recovered copies are sealed with
CREATE TABLE @.ledger_keys (name text PRIMARY KEY, value text NOT NULL);

-- A message is told from others by its number in its queue and, if that is declared again and counts anew, by its time.
ALTER TABLE @.set_asides RENAME TO old_set_asides;
CREATE TABLE @.set_asides (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text NOT NULL,
    sequence bigint NOT NULL,
    message_id text NOT NULL,
    properties text,
    dead_letter text,
    body bytea NOT NULL,
    enqueued_at float8 NOT NULL,
    reason text NOT NULL,
    at float8 NOT NULL,
    UNIQUE (queue, sequence, enqueued_at)
);
INSERT INTO @.set_asides (queue, sequence, message_id, properties, dead_letter, body, enqueued_at, reason, at)
    SELECT queue, sequence, message_id, properties, dead_letter, body, enqueued_at, reason, at
    FROM @.old_set_asides ORDER BY number;
DROP TABLE @.old_set_asides;
