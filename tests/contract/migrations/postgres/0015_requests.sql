
-- requests that are made once for a key
CREATE TABLE @.access_requests (
    name text PRIMARY KEY,
    begun_at float8 NOT NULL,
    done_at float8  -- null: it is being worked on, or was when a server ended
);
CREATE INDEX access_requests_begun ON @.access_requests (begun_at);
