
CREATE TABLE redrive_access_tokens (
    id text PRIMARY KEY,
    hash text NOT NULL UNIQUE,
    name text NOT NULL,
    role text NOT NULL,
    queues text,  -- a list in JSON; null: no limit
    may_see_bodies integer NOT NULL,
    created_at real NOT NULL,
    created_by text NOT NULL,
    expires_at real,
    used_at real,
    revoked_at real
);

CREATE TABLE redrive_access_users (
    name text PRIMARY KEY,
    password text NOT NULL,
    role text NOT NULL,
    queues text,
    may_see_bodies integer NOT NULL,
    created_at real NOT NULL,
    created_by text NOT NULL
);

CREATE TABLE redrive_access_sessions (
    id text PRIMARY KEY,
    hash text NOT NULL UNIQUE,
    user_name text NOT NULL,
    role text NOT NULL,
    queues text,
    may_see_bodies integer NOT NULL,
    created_at real NOT NULL,
    used_at real NOT NULL,
    address text NOT NULL
);
CREATE INDEX redrive_access_sessions_user ON redrive_access_sessions (user_name);
CREATE INDEX redrive_access_sessions_used ON redrive_access_sessions (used_at);

-- attempts to sign in, by account and by address
CREATE TABLE redrive_access_attempts (
    number integer PRIMARY KEY AUTOINCREMENT,
    key text NOT NULL,
    at real NOT NULL
);
CREATE INDEX redrive_access_attempts_key ON redrive_access_attempts (key, at);
CREATE INDEX redrive_access_attempts_at ON redrive_access_attempts (at);
