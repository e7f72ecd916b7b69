# SPDX-License-Identifier: MIT
"""The table of journeys' entries: what happened to messages that had trouble or are followed. Times as elsewhere."""

JOURNEYS = """
CREATE TABLE @.journey_entries (
    number @serial,
    message_id text NOT NULL,
    parent text,  -- the message that was handled when this one was sent
    at @time NOT NULL,
    since @time,  -- when the lock began that has ended here, or was last renewed
    until @time,  -- when it is available again
    layer text NOT NULL,
    event text NOT NULL,
    place text NOT NULL,
    attempt integer NOT NULL,
    reason text NOT NULL
);
-- an id may be longer than an entry of an ordered index can be
CREATE INDEX @_journey_entries_message ON @.journey_entries @hashed(message_id);
CREATE INDEX @_journey_entries_parent ON @.journey_entries @hashed(parent) WHERE parent IS NOT NULL;
CREATE INDEX @_journey_entries_age ON @.journey_entries (at);
"""
