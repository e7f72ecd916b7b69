
CREATE TABLE redrive_journey_entries (
    number integer PRIMARY KEY AUTOINCREMENT,
    message_id text NOT NULL,
    parent text,  -- the message that was handled when this one was sent
    at real NOT NULL,
    since real,  -- when the lock began that has ended here, or was last renewed
    until real,  -- when it is available again
    layer text NOT NULL,
    event text NOT NULL,
    place text NOT NULL,
    attempt integer NOT NULL,
    reason text NOT NULL
);
-- an id may be longer than an entry of an ordered index can be
CREATE INDEX redrive_journey_entries_message ON redrive_journey_entries (message_id);
CREATE INDEX redrive_journey_entries_parent ON redrive_journey_entries (parent) WHERE parent IS NOT NULL;
CREATE INDEX redrive_journey_entries_age ON redrive_journey_entries (at);
