
-- stack traces without their ends, each once for all failures of a group that share it
CREATE TABLE @.failure_traces (
    exception_group text NOT NULL,
    digest bigint NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (exception_group, digest)
);
ALTER TABLE @.failure_contents ADD COLUMN trace bigint;  -- of the last failure; null: it is in the details
