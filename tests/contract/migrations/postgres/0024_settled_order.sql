
CREATE INDEX failures_settled_newest ON @.failures (status, failed_at, number) WHERE status > 2;
