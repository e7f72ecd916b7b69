
CREATE TABLE @.failures (
    number bigint PRIMARY KEY,  -- the order in which they were first seen
    queue text NOT NULL,
    status smallint NOT NULL,
    message_type text NOT NULL,
    exception_type text NOT NULL,
    exception_group text NOT NULL,
    attempts integer NOT NULL,
    first_failed_at float8 NOT NULL,
    failed_at float8 NOT NULL,
    attempt_key text NOT NULL,  -- tells the last failure from every other
    attempt_operation bigint,  -- the operation that had sent it
    settled_at float8,  -- what failed before then is known, and changes no status
    change bigint NOT NULL,  -- the number of the last change: an operation takes nothing that changed after its request
    operation bigint,  -- the last that did something with it
    bytes integer NOT NULL,  -- of its body
    source text NOT NULL,
    edit_of text,
    edited_as text
);
-- Those that are unresolved are looked at in every way. A message that is sent again leaves these indexes, and enters
-- one other.
CREATE INDEX failures_unresolved ON @.failures (number, failed_at) WHERE status = 1;
CREATE INDEX failures_group ON @.failures (exception_group, number, failed_at) WHERE status = 1;
CREATE INDEX failures_queue ON @.failures (queue, number, failed_at) WHERE status = 1;
CREATE INDEX failures_type ON @.failures (message_type, number, failed_at) WHERE status = 1;
CREATE INDEX failures_exception ON @.failures (exception_type, queue, number, failed_at) WHERE status = 1;
CREATE INDEX failures_others ON @.failures (status, number, failed_at) WHERE status > 1;
CREATE INDEX failures_settled ON @.failures (settled_at) WHERE status IN (3, 4);

CREATE TABLE @.failure_contents (
    number bigint PRIMARY KEY,
    id text NOT NULL UNIQUE,
    message_id text NOT NULL,
    exception_message text NOT NULL,
    properties text,
    details text NOT NULL,
    search text NOT NULL,  -- headers and the exception's message, to look for words in
    body bytea NOT NULL
);
CREATE INDEX failure_contents_message ON @.failure_contents (message_id);

-- failures before the last
CREATE TABLE @.failure_attempts (
    failure bigint NOT NULL,
    key text NOT NULL,
    failed_at float8 NOT NULL,
    operation bigint,
    details text NOT NULL,
    PRIMARY KEY (failure, key)
);

-- the groups of classifiers that a program adds; those of exception, queue and type are columns
CREATE TABLE @.failure_groups (
    failure bigint NOT NULL,
    group_id text NOT NULL,
    PRIMARY KEY (failure, group_id)
);
CREATE INDEX failure_groups_group ON @.failure_groups (group_id, failure);
CREATE TABLE @.groups (id text PRIMARY KEY, classifier text NOT NULL, title text NOT NULL);

-- the queues that failures were found in, and the types of exceptions that there are
CREATE TABLE @.seen_names (kind text NOT NULL, name text NOT NULL, PRIMARY KEY (kind, name));

-- one row, whose lock puts all changes of failures in one order
CREATE TABLE @.ledger_changes (value bigint NOT NULL, last_failure bigint NOT NULL);
INSERT INTO @.ledger_changes VALUES (0, 0);

CREATE TABLE @.operations (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    plan text NOT NULL,
    filter text NOT NULL,
    asked text NOT NULL,  -- what the request looked like: with the same key it has to be the same
    actor text NOT NULL,
    reason text NOT NULL,
    key text UNIQUE,
    state smallint NOT NULL,
    told text NOT NULL,
    cutoff bigint NOT NULL,  -- the number of the last change before the request
    matched bigint NOT NULL,
    has_verdict smallint NOT NULL,  -- whether the canaries have been judged
    batches integer NOT NULL,
    served integer NOT NULL,  -- how many of them have been staged: who has had least is next
    unknown_ids text NOT NULL,
    requested_at float8 NOT NULL,
    not_before float8,
    started_at float8,
    ended_at float8,
    acknowledged_by text
);
CREATE INDEX operations_open ON @.operations (number) WHERE state NOT IN (6, 7);

-- the messages of an operation that have not had their turn yet, as lists of their numbers
CREATE TABLE @.operation_members (
    operation bigint NOT NULL,
    last bigint NOT NULL,  -- the largest of them
    numbers text NOT NULL,
    PRIMARY KEY (operation, last)
);

CREATE TABLE @.batches (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operation bigint NOT NULL,
    lane text NOT NULL,
    state smallint NOT NULL,
    session text NOT NULL,  -- the process that made it
    chosen text,  -- in state marking: the numbers of its failures
    is_canary smallint NOT NULL,
    staging_id text,
    successor bigint  -- has what was taken back, as the operation was paused
);
CREATE INDEX batches_operation ON @.batches (operation);
CREATE INDEX batches_lane ON @.batches (lane, state, operation, number);

-- One message in one operation. Its claim is the unique index: a message is PENDING or FORWARDED in one operation only.
-- All operations of one message are found through the operations, which are few: an index would cost each message more.
CREATE TABLE @.parts (
    operation bigint NOT NULL,
    failure bigint NOT NULL,
    batch bigint NOT NULL,
    is_canary smallint NOT NULL,
    outcome smallint NOT NULL,
    reason text NOT NULL,
    at float8 NOT NULL,
    PRIMARY KEY (operation, failure)
);
CREATE UNIQUE INDEX parts_claim ON @.parts (failure) WHERE outcome IN (1, 2);
CREATE INDEX parts_pending ON @.parts (batch, failure) WHERE outcome = 1;

-- A lane sends to one destination, one batch at a time.
CREATE TABLE @.lanes (name text PRIMARY KEY, batch bigint, next_at float8 NOT NULL, strays bigint NOT NULL DEFAULT 0);

CREATE TABLE @.leases (name text PRIMARY KEY, session text NOT NULL, token bigint NOT NULL, until float8 NOT NULL);

-- who serves, for people to see
CREATE TABLE @.services (session text PRIMARY KEY, host text NOT NULL, since float8 NOT NULL, until float8 NOT NULL);

CREATE TABLE @.redirects (queue text PRIMARY KEY, target text NOT NULL);

CREATE TABLE @.notes (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subject text NOT NULL,
    text text NOT NULL,
    actor text NOT NULL,
    at float8 NOT NULL
);
CREATE INDEX notes_subject ON @.notes (subject, number);

CREATE TABLE @.audit (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at float8 NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    reason text NOT NULL,
    outcome text NOT NULL
);
CREATE INDEX audit_subject ON @.audit (subject, number);

CREATE TABLE @.set_asides (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text NOT NULL,
    sequence bigint NOT NULL,
    message_id text NOT NULL,
    properties text,
    dead_letter text,
    body bytea NOT NULL,
    enqueued_at float8 NOT NULL,
    reason text NOT NULL,
    at float8 NOT NULL,
    UNIQUE (queue, sequence)
);
