# SPDX-License-Identifier: MIT
"""The tables of the history, written once: each engine puts its own words for the types.

Times are seconds since 1970.
"""

HISTORY = """
-- How often something happened in a span of time. A number is in one row only: when minutes are old, they are added to
-- the row of their hour, and removed in the same transaction; so for hours and days.
CREATE TABLE @.tallies (
    topic text NOT NULL,
    name text NOT NULL,
    metric text NOT NULL,
    step @big NOT NULL,  -- how long the span is: 60, 3,600 or 86,400 seconds
    began @big NOT NULL,  -- when it began
    n @big NOT NULL,  -- of a gauge: the highest that was seen
    PRIMARY KEY (topic, name, metric, step, began)
)@rowless;
CREATE INDEX @_tallies_metric ON @.tallies (topic, metric, began);
CREATE INDEX @_tallies_age ON @.tallies (step, began);

-- at most one row: the last minute for which depths were noted, and for how many seconds what is kept, if not as usual
CREATE TABLE @.history_state (
    one @small PRIMARY KEY,  -- 1
    gauged @big NOT NULL,
    minutes @big,
    hours @big,
    days @big
);

-- who handles messages, for people to see
CREATE TABLE @.workers (
    session text PRIMARY KEY,
    name text NOT NULL,
    host text NOT NULL,
    pid @big NOT NULL,
    version text NOT NULL,
    queues text NOT NULL,  -- a list in JSON
    concurrency @big NOT NULL,
    in_flight @big NOT NULL,
    handled @big NOT NULL,
    p95 @time,  -- of how long handling took lately, in seconds
    since @time NOT NULL,
    seen_at @time NOT NULL,
    until @time NOT NULL
);

-- The destination of each batch that there was: batches are removed when they are finished, and what became of their
-- messages is known later.
CREATE TABLE @.operation_batches (batch @big PRIMARY KEY, operation @big NOT NULL, lane text NOT NULL);
CREATE INDEX @_operation_batches_operation ON @.operation_batches (operation);
INSERT INTO @.operation_batches SELECT number, operation, lane FROM @.batches;

-- what had become of the messages of an operation by a time
CREATE TABLE @.operation_samples (
    operation @big NOT NULL,
    at @time NOT NULL,
    counts text NOT NULL,  -- by destination and outcome, in JSON
    PRIMARY KEY (operation, at)
)@rowless;
"""

SQLITE_TRIGGER = """
CREATE TRIGGER redrive_batches_noted AFTER INSERT ON redrive_batches BEGIN
    INSERT INTO redrive_operation_batches VALUES (new.number, new.operation, new.lane);
END;
"""
"""Notes the destination of a batch, in SQLite."""

POSTGRES_TRIGGER = """
CREATE FUNCTION @.note_batch() RETURNS trigger LANGUAGE plpgsql AS $redrive$
BEGIN
    INSERT INTO @.operation_batches VALUES (new.number, new.operation, new.lane);
    RETURN NULL;
END $redrive$;
CREATE TRIGGER batches_noted AFTER INSERT ON @.batches FOR EACH ROW EXECUTE FUNCTION @.note_batch();
"""
"""The same in PostgreSQL."""
