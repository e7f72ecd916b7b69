
-- what is hidden in messages, beside what a file says
CREATE TABLE redrive_access_redactions (
    number integer PRIMARY KEY AUTOINCREMENT,
    kind text NOT NULL,
    value text NOT NULL,
    created_at real NOT NULL,
    created_by text NOT NULL,
    UNIQUE (kind, value)
);
