
-- stack traces without their ends, each once for all failures of a group that share it
CREATE TABLE redrive_failure_traces (
    exception_group text NOT NULL,
    digest integer NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (exception_group, digest)
);
ALTER TABLE redrive_failure_contents ADD COLUMN trace integer;  -- of the last failure; null: it is in the details
