
-- filters that people keep under a name
CREATE TABLE redrive_saved_views (
    number integer PRIMARY KEY AUTOINCREMENT,
    name text NOT NULL,
    filter text NOT NULL,
    grouped_by text NOT NULL,
    owner text NOT NULL,
    created_at real NOT NULL
);
CREATE UNIQUE INDEX redrive_saved_views_owner ON redrive_saved_views (owner, name);
