
CREATE TABLE @.access_tokens (
    id text PRIMARY KEY,
    hash text NOT NULL UNIQUE,
    name text NOT NULL,
    role text NOT NULL,
    queues text,  -- a list in JSON; null: no limit
    may_see_bodies smallint NOT NULL,
    created_at float8 NOT NULL,
    created_by text NOT NULL,
    expires_at float8,
    used_at float8,
    revoked_at float8
);

CREATE TABLE @.access_users (
    name text PRIMARY KEY,
    password text NOT NULL,
    role text NOT NULL,
    queues text,
    may_see_bodies smallint NOT NULL,
    created_at float8 NOT NULL,
    created_by text NOT NULL
);

CREATE TABLE @.access_sessions (
    id text PRIMARY KEY,
    hash text NOT NULL UNIQUE,
    user_name text NOT NULL,
    role text NOT NULL,
    queues text,
    may_see_bodies smallint NOT NULL,
    created_at float8 NOT NULL,
    used_at float8 NOT NULL,
    address text NOT NULL
);
CREATE INDEX access_sessions_user ON @.access_sessions (user_name);
CREATE INDEX access_sessions_used ON @.access_sessions (used_at);

-- attempts to sign in, by account and by address
CREATE TABLE @.access_attempts (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text NOT NULL,
    at float8 NOT NULL
);
CREATE INDEX access_attempts_key ON @.access_attempts (key, at);
CREATE INDEX access_attempts_at ON @.access_attempts (at);
