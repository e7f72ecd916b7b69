
-- filters that people keep under a name
CREATE TABLE @.saved_views (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    filter text NOT NULL,
    grouped_by text NOT NULL,
    owner text NOT NULL,
    created_at float8 NOT NULL
);
CREATE UNIQUE INDEX saved_views_owner ON @.saved_views (owner, name);
