
CREATE TABLE redrive_webhooks (
    name text PRIMARY KEY,
    url text NOT NULL,
    events text NOT NULL,  -- a list in JSON
    secret text NOT NULL,
    created_at real NOT NULL,
    created_by text NOT NULL
);

-- what webhooks were called for, for as long as it is so
CREATE TABLE redrive_webhook_notices (
    name text PRIMARY KEY,
    event_id text NOT NULL,
    seen_at real NOT NULL
);
