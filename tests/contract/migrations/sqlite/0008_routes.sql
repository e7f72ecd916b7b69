
-- the routes as they are now
CREATE TABLE redrive_routes (
    application text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    state text NOT NULL,
    definition text NOT NULL,
    earlier_queues text NOT NULL,  -- a list in JSON
    until real,
    reason text NOT NULL,
    changed_at real NOT NULL,
    PRIMARY KEY (application, name)
);

-- Everything that they have been, in one order: the last number is the revision. A number is not given by the database,
-- but is the next one: of two processes that change routes at once, one finds its number taken.
CREATE TABLE redrive_route_changes (
    number integer PRIMARY KEY,
    application text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    state text NOT NULL,
    definition text NOT NULL,
    earlier_queues text NOT NULL,
    until real,
    reason text NOT NULL,
    changed_at real NOT NULL
);
CREATE INDEX redrive_route_changes_route ON redrive_route_changes (application, name, number);

-- keys that only one event may have, for a while
CREATE TABLE redrive_route_claims (
    owner text NOT NULL,
    key text NOT NULL,
    holder text NOT NULL,
    expires real NOT NULL,
    PRIMARY KEY (owner, key)
) WITHOUT ROWID;
CREATE INDEX redrive_route_claims_expires ON redrive_route_claims (expires);

-- who follows a route
CREATE TABLE redrive_route_taps (
    queue text PRIMARY KEY,
    application text NOT NULL,
    route text NOT NULL,
    until real NOT NULL
);
