
-- requests that are made once for a key
CREATE TABLE redrive_access_requests (
    name text PRIMARY KEY,
    begun_at real NOT NULL,
    done_at real  -- null: it is being worked on, or was when a server ended
);
CREATE INDEX redrive_access_requests_begun ON redrive_access_requests (begun_at);
