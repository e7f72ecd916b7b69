
-- the routes as they are now
CREATE TABLE @.routes (
    application text NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL,
    state text NOT NULL,
    definition text NOT NULL,
    earlier_queues text NOT NULL,  -- a list in JSON
    until float8,
    reason text NOT NULL,
    changed_at float8 NOT NULL,
    PRIMARY KEY (application, name)
);

-- Everything that they have been, in one order: the last number is the revision. A number is not given by the database,
-- but is the next one: of two processes that change routes at once, one finds its number taken.
CREATE TABLE @.route_changes (
    number bigint PRIMARY KEY,
    application text NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL,
    state text NOT NULL,
    definition text NOT NULL,
    earlier_queues text NOT NULL,
    until float8,
    reason text NOT NULL,
    changed_at float8 NOT NULL
);
CREATE INDEX route_changes_route ON @.route_changes (application, name, number);

-- keys that only one event may have, for a while
CREATE TABLE @.route_claims (
    owner text NOT NULL,
    key text NOT NULL,
    holder text NOT NULL,
    expires float8 NOT NULL,
    PRIMARY KEY (owner, key)
);
CREATE INDEX route_claims_expires ON @.route_claims (expires);

-- who follows a route
CREATE TABLE @.route_taps (
    queue text PRIMARY KEY,
    application text NOT NULL,
    route text NOT NULL,
    until float8 NOT NULL
);
