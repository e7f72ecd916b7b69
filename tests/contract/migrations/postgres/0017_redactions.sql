
-- what is hidden in messages, beside what a file says
CREATE TABLE @.access_redactions (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    value text NOT NULL,
    created_at float8 NOT NULL,
    created_by text NOT NULL,
    UNIQUE (kind, value)
);
