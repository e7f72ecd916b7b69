
CREATE INDEX redrive_failures_settled_newest ON redrive_failures (status, failed_at, number) WHERE status > 2;
