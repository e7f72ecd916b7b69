# SPDX-License-Identifier: MIT
"""The tables of webhooks, written once: each engine puts its own words for the types."""

WEBHOOKS = """
CREATE TABLE @.webhooks (
    name text PRIMARY KEY,
    url text NOT NULL,
    events text NOT NULL,  -- a list in JSON
    secret text NOT NULL,
    created_at @time NOT NULL,
    created_by text NOT NULL
);

-- what webhooks were called for, for as long as it is so
CREATE TABLE @.webhook_notices (
    name text PRIMARY KEY,
    event_id text NOT NULL,
    seen_at @time NOT NULL
);
"""
