
-- what the tags of recovered copies are sealed with
CREATE TABLE redrive_ledger_keys (name text PRIMARY KEY, value text NOT NULL);

-- A message is told from others by its number in its queue and, if that is declared again and counts anew, by its time.
ALTER TABLE redrive_set_asides RENAME TO redrive_old_set_asides;
CREATE TABLE redrive_set_asides (
    number integer PRIMARY KEY AUTOINCREMENT,
    queue text NOT NULL,
    sequence integer NOT NULL,
    message_id text NOT NULL,
    properties text,
    dead_letter text,
    body blob NOT NULL,
    enqueued_at real NOT NULL,
    reason text NOT NULL,
    at real NOT NULL,
    UNIQUE (queue, sequence, enqueued_at)
);
INSERT INTO redrive_set_asides (queue, sequence, message_id, properties, dead_letter, body, enqueued_at, reason, at)
    SELECT queue, sequence, message_id, properties, dead_letter, body, enqueued_at, reason, at
    FROM redrive_old_set_asides ORDER BY number;
DROP TABLE redrive_old_set_asides;
