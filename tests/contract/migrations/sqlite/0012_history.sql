
-- How often something happened in a span of time. A number is in one row only: when minutes are old, they are added to
-- the row of their hour, and removed in the same transaction; so for hours and days.
CREATE TABLE redrive_tallies (
    topic text NOT NULL,
    name text NOT NULL,
    metric text NOT NULL,
    step integer NOT NULL,  -- how long the span is: 60, 3,600 or 86,400 seconds
    began integer NOT NULL,  -- when it began
    n integer NOT NULL,  -- of a gauge: the highest that was seen
    PRIMARY KEY (topic, name, metric, step, began)
) WITHOUT ROWID;
CREATE INDEX redrive_tallies_metric ON redrive_tallies (topic, metric, began);
CREATE INDEX redrive_tallies_age ON redrive_tallies (step, began);

-- at most one row: the last minute for which depths were noted, and for how many seconds what is kept, if not as usual
CREATE TABLE redrive_history_state (
    one integer PRIMARY KEY,  -- 1
    gauged integer NOT NULL,
    minutes integer,
    hours integer,
    days integer
);

-- who handles messages, for people to see
CREATE TABLE redrive_workers (
    session text PRIMARY KEY,
    name text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    queues text NOT NULL,  -- a list in JSON
    concurrency integer NOT NULL,
    in_flight integer NOT NULL,
    handled integer NOT NULL,
    p95 real,  -- of how long handling took lately, in seconds
    since real NOT NULL,
    seen_at real NOT NULL,
    until real NOT NULL
);

-- The destination of each batch that there was: batches are removed when they are finished, and what became of their
-- messages is known later.
CREATE TABLE redrive_operation_batches (batch integer PRIMARY KEY, operation integer NOT NULL, lane text NOT NULL);
CREATE INDEX redrive_operation_batches_operation ON redrive_operation_batches (operation);
INSERT INTO redrive_operation_batches SELECT number, operation, lane FROM redrive_batches;

-- what had become of the messages of an operation by a time
CREATE TABLE redrive_operation_samples (
    operation integer NOT NULL,
    at real NOT NULL,
    counts text NOT NULL,  -- by destination and outcome, in JSON
    PRIMARY KEY (operation, at)
) WITHOUT ROWID;

CREATE TRIGGER redrive_batches_noted AFTER INSERT ON redrive_batches BEGIN
    INSERT INTO redrive_operation_batches VALUES (new.number, new.operation, new.lane);
END;
