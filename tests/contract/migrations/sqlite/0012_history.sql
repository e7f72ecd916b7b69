
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

-- what became of the messages of an operation, by destination
CREATE TABLE redrive_operation_counts (
    operation integer NOT NULL,
    lane text NOT NULL,
    outcome integer NOT NULL,
    n integer NOT NULL,
    PRIMARY KEY (operation, lane, outcome)
) WITHOUT ROWID;

-- the same over time, while it runs
CREATE TABLE redrive_operation_samples (
    operation integer NOT NULL,
    at real NOT NULL,
    counts text NOT NULL,  -- by outcome, in JSON
    PRIMARY KEY (operation, at)
) WITHOUT ROWID;
