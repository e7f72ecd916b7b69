
CREATE TABLE redrive_failures (
    number integer PRIMARY KEY,  -- the order in which they were first seen
    queue text NOT NULL,
    status integer NOT NULL,
    message_type text NOT NULL,
    exception_type text NOT NULL,
    exception_group text NOT NULL,
    attempts integer NOT NULL,
    first_failed_at real NOT NULL,
    failed_at real NOT NULL,
    attempt_key text NOT NULL,  -- tells the last failure from every other
    attempt_operation integer,  -- the operation that had sent it
    settled_at real,  -- what failed before then is known, and changes no status
    change integer NOT NULL,  -- the number of the last change: an operation takes nothing that changed after its request
    operation integer,  -- the last that did something with it
    bytes integer NOT NULL,  -- of its body
    source text NOT NULL,
    edit_of text,
    edited_as text
);
-- Those that are unresolved are looked at in every way. A message that is sent again leaves these indexes, and enters
-- one other.
CREATE INDEX redrive_failures_unresolved ON redrive_failures (number, failed_at) WHERE status = 1;
CREATE INDEX redrive_failures_group ON redrive_failures (exception_group, number, failed_at) WHERE status = 1;
CREATE INDEX redrive_failures_queue ON redrive_failures (queue, number, failed_at) WHERE status = 1;
CREATE INDEX redrive_failures_type ON redrive_failures (message_type, number, failed_at) WHERE status = 1;
CREATE INDEX redrive_failures_exception ON redrive_failures (exception_type, queue, number, failed_at) WHERE status = 1;
CREATE INDEX redrive_failures_others ON redrive_failures (status, number, failed_at) WHERE status > 1;
CREATE INDEX redrive_failures_settled ON redrive_failures (settled_at) WHERE status IN (3, 4);

CREATE TABLE redrive_failure_contents (
    number integer PRIMARY KEY,
    id text NOT NULL UNIQUE,
    message_id text NOT NULL,
    exception_message text NOT NULL,
    properties text,
    details text NOT NULL,
    search text NOT NULL,  -- headers and the exception's message, to look for words in
    body blob NOT NULL
);
CREATE INDEX redrive_failure_contents_message ON redrive_failure_contents (message_id);

-- failures before the last
CREATE TABLE redrive_failure_attempts (
    failure integer NOT NULL,
    key text NOT NULL,
    failed_at real NOT NULL,
    operation integer,
    details text NOT NULL,
    PRIMARY KEY (failure, key)
);

-- the groups of classifiers that a program adds; those of exception, queue and type are columns
CREATE TABLE redrive_failure_groups (
    failure integer NOT NULL,
    group_id text NOT NULL,
    PRIMARY KEY (failure, group_id)
);
CREATE INDEX redrive_failure_groups_group ON redrive_failure_groups (group_id, failure);
CREATE TABLE redrive_groups (id text PRIMARY KEY, classifier text NOT NULL, title text NOT NULL);

-- the queues that failures were found in, and the types of exceptions that there are
CREATE TABLE redrive_seen_names (kind text NOT NULL, name text NOT NULL, PRIMARY KEY (kind, name));

-- one row, whose lock puts all changes of failures in one order
CREATE TABLE redrive_ledger_changes (value integer NOT NULL, last_failure integer NOT NULL);
INSERT INTO redrive_ledger_changes VALUES (0, 0);

CREATE TABLE redrive_operations (
    number integer PRIMARY KEY AUTOINCREMENT,
    kind text NOT NULL,
    plan text NOT NULL,
    filter text NOT NULL,
    asked text NOT NULL,  -- what the request looked like: with the same key it has to be the same
    actor text NOT NULL,
    reason text NOT NULL,
    key text UNIQUE,
    state integer NOT NULL,
    told text NOT NULL,
    cutoff integer NOT NULL,  -- the number of the last change before the request
    matched integer NOT NULL,
    has_verdict integer NOT NULL,  -- whether the canaries have been judged
    batches integer NOT NULL,
    served integer NOT NULL,  -- how many of them have been staged: who has had least is next
    unknown_ids text NOT NULL,
    requested_at real NOT NULL,
    not_before real,
    started_at real,
    ended_at real,
    acknowledged_by text
);
CREATE INDEX redrive_operations_open ON redrive_operations (number) WHERE state NOT IN (6, 7);

-- the messages of an operation that have not had their turn yet, as lists of their numbers
CREATE TABLE redrive_operation_members (
    operation integer NOT NULL,
    last integer NOT NULL,  -- the largest of them
    numbers text NOT NULL,
    PRIMARY KEY (operation, last)
);

CREATE TABLE redrive_batches (
    number integer PRIMARY KEY AUTOINCREMENT,
    operation integer NOT NULL,
    lane text NOT NULL,
    state integer NOT NULL,
    session text NOT NULL,  -- the process that made it
    chosen text,  -- in state marking: the numbers of its failures
    is_canary integer NOT NULL,
    staging_id text,
    successor integer  -- has what was taken back, as the operation was paused
);
CREATE INDEX redrive_batches_operation ON redrive_batches (operation);
CREATE INDEX redrive_batches_lane ON redrive_batches (lane, state, operation, number);

-- One message in one operation. Its claim is the unique index: a message is PENDING or FORWARDED in one operation only.
-- All operations of one message are found through the operations, which are few: an index would cost each message more.
CREATE TABLE redrive_parts (
    operation integer NOT NULL,
    failure integer NOT NULL,
    batch integer NOT NULL,
    is_canary integer NOT NULL,
    outcome integer NOT NULL,
    reason text NOT NULL,
    at real NOT NULL,
    PRIMARY KEY (operation, failure)
) WITHOUT ROWID;
CREATE UNIQUE INDEX redrive_parts_claim ON redrive_parts (failure) WHERE outcome IN (1, 2);
CREATE INDEX redrive_parts_pending ON redrive_parts (batch, failure) WHERE outcome = 1;

-- A lane sends to one destination, one batch at a time.
CREATE TABLE redrive_lanes (name text PRIMARY KEY, batch integer, next_at real NOT NULL, strays integer NOT NULL DEFAULT 0);

CREATE TABLE redrive_leases (name text PRIMARY KEY, session text NOT NULL, token integer NOT NULL, until real NOT NULL);

-- who serves, for people to see
CREATE TABLE redrive_services (session text PRIMARY KEY, host text NOT NULL, since real NOT NULL, until real NOT NULL);

CREATE TABLE redrive_redirects (queue text PRIMARY KEY, target text NOT NULL);

CREATE TABLE redrive_notes (
    number integer PRIMARY KEY AUTOINCREMENT,
    subject text NOT NULL,
    text text NOT NULL,
    actor text NOT NULL,
    at real NOT NULL
);
CREATE INDEX redrive_notes_subject ON redrive_notes (subject, number);

CREATE TABLE redrive_audit (
    number integer PRIMARY KEY AUTOINCREMENT,
    at real NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    reason text NOT NULL,
    outcome text NOT NULL
);
CREATE INDEX redrive_audit_subject ON redrive_audit (subject, number);

CREATE TABLE redrive_set_asides (
    number integer PRIMARY KEY AUTOINCREMENT,
    queue text NOT NULL,
    sequence integer NOT NULL,
    message_id text NOT NULL,
    properties text,
    dead_letter text,
    body blob NOT NULL,
    enqueued_at real NOT NULL,
    reason text NOT NULL,
    at real NOT NULL,
    UNIQUE (queue, sequence)
);
