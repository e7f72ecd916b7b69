# SPDX-License-Identifier: MIT
"""The tables of the server's own store, written once: each engine puts its own words for the types.

Times are seconds since 1970. Secrets are hashes.
"""

ACCESS = """
CREATE TABLE @.access_tokens (
    id text PRIMARY KEY,
    hash text NOT NULL UNIQUE,
    name text NOT NULL,
    role text NOT NULL,
    queues text,  -- a list in JSON; null: no limit
    may_see_bodies @small NOT NULL,
    created_at @time NOT NULL,
    created_by text NOT NULL,
    expires_at @time,
    used_at @time,
    revoked_at @time
);

CREATE TABLE @.access_users (
    name text PRIMARY KEY,
    password text NOT NULL,
    role text NOT NULL,
    queues text,
    may_see_bodies @small NOT NULL,
    created_at @time NOT NULL,
    created_by text NOT NULL
);

CREATE TABLE @.access_sessions (
    id text PRIMARY KEY,
    hash text NOT NULL UNIQUE,
    user_name text NOT NULL,
    role text NOT NULL,
    queues text,
    may_see_bodies @small NOT NULL,
    created_at @time NOT NULL,
    used_at @time NOT NULL,
    address text NOT NULL
);
CREATE INDEX @_access_sessions_user ON @.access_sessions (user_name);
CREATE INDEX @_access_sessions_used ON @.access_sessions (used_at);

-- attempts to sign in, by account and by address
CREATE TABLE @.access_attempts (
    number @serial,
    key text NOT NULL,
    at @time NOT NULL
);
CREATE INDEX @_access_attempts_key ON @.access_attempts (key, at);
CREATE INDEX @_access_attempts_at ON @.access_attempts (at);
"""

REQUESTS = """
-- requests that are made once for a key
CREATE TABLE @.access_requests (
    name text PRIMARY KEY,
    begun_at @time NOT NULL,
    done_at @time  -- null: it is being worked on, or was when a server ended
);
CREATE INDEX @_access_requests_begun ON @.access_requests (begun_at);
"""

SIGN_INS = """
-- people who are at a provider of OpenID Connect
CREATE TABLE @.access_sign_ins (
    hash text PRIMARY KEY,
    browser text NOT NULL,
    nonce text NOT NULL,
    verifier text NOT NULL,
    goes_to text NOT NULL,
    at @time NOT NULL
);
CREATE INDEX @_access_sign_ins_at ON @.access_sign_ins (at);
"""

REDACTIONS = """
-- what is hidden in messages, beside what a file says
CREATE TABLE @.access_redactions (
    number @serial,
    kind text NOT NULL,
    value text NOT NULL,
    created_at @time NOT NULL,
    created_by text NOT NULL,
    UNIQUE (kind, value)
);
"""

VIEWS = """
-- filters that people keep under a name
CREATE TABLE @.saved_views (
    number @serial,
    name text NOT NULL,
    filter text NOT NULL,
    grouped_by text NOT NULL,
    owner text NOT NULL,
    created_at @time NOT NULL
);
CREATE UNIQUE INDEX @_saved_views_owner ON @.saved_views (owner, name);
"""
