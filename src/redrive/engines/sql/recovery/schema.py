# SPDX-License-Identifier: MIT
"""The ledger's tables, written once: each engine puts its own words for the types.

A failed message is in two tables. ``failures`` has what is counted and changed, and is small; who it is, what it
carries, and what is told about it, is in ``failure_contents``, and is written when it fails. So a message that changes
its status touches no index whose entries are all over the place, as ids are. Lists and counts of a group, a queue or a
type read one place in one index. In SQLite, where a program's own tables may be in the same file, the names of all
these begin with ``redrive_``. Times are seconds since 1970, states are the numbers of ``redrive.recovery.states``.
"""

RECOVERY = """
CREATE TABLE @.failures (
    number @big PRIMARY KEY,  -- the order in which they were first seen
    queue text NOT NULL,
    status @small NOT NULL,
    message_type text NOT NULL,
    exception_type text NOT NULL,
    exception_group text NOT NULL,
    attempts integer NOT NULL,
    first_failed_at @time NOT NULL,
    failed_at @time NOT NULL,
    attempt_key text NOT NULL,  -- tells the last failure from every other
    attempt_operation @big,  -- the operation that had sent it
    settled_at @time,  -- what failed before then is known, and changes no status
    change @big NOT NULL,  -- the number of the last change: an operation takes nothing that changed after its request
    operation @big,  -- the last that did something with it
    bytes integer NOT NULL,  -- of its body
    source text NOT NULL,
    edit_of text,
    edited_as text
);
-- Those that are unresolved are looked at in every way. A message that is sent again leaves these indexes, and enters
-- one other.
CREATE INDEX @_failures_unresolved ON @.failures (number, failed_at) WHERE status = 1;
CREATE INDEX @_failures_group ON @.failures (exception_group, number, failed_at) WHERE status = 1;
CREATE INDEX @_failures_queue ON @.failures (queue, number, failed_at) WHERE status = 1;
CREATE INDEX @_failures_type ON @.failures (message_type, number, failed_at) WHERE status = 1;
CREATE INDEX @_failures_exception ON @.failures (exception_type, queue, number, failed_at) WHERE status = 1;
CREATE INDEX @_failures_others ON @.failures (status, number, failed_at) WHERE status > 1;
CREATE INDEX @_failures_settled ON @.failures (settled_at) WHERE status IN (3, 4);

CREATE TABLE @.failure_contents (
    number @big PRIMARY KEY,
    id text NOT NULL UNIQUE,
    message_id text NOT NULL,
    exception_message text NOT NULL,
    properties text,
    details text NOT NULL,
    search text NOT NULL,  -- headers and the exception's message, to look for words in
    body @bytes NOT NULL
);
CREATE INDEX @_failure_contents_message ON @.failure_contents (message_id);

-- failures before the last
CREATE TABLE @.failure_attempts (
    failure @big NOT NULL,
    key text NOT NULL,
    failed_at @time NOT NULL,
    operation @big,
    details text NOT NULL,
    PRIMARY KEY (failure, key)
);

-- the groups of classifiers that a program adds; those of exception, queue and type are columns
CREATE TABLE @.failure_groups (
    failure @big NOT NULL,
    group_id text NOT NULL,
    PRIMARY KEY (failure, group_id)
);
CREATE INDEX @_failure_groups_group ON @.failure_groups (group_id, failure);
CREATE TABLE @.groups (id text PRIMARY KEY, classifier text NOT NULL, title text NOT NULL);

-- the queues that failures were found in, and the types of exceptions that there are
CREATE TABLE @.seen_names (kind text NOT NULL, name text NOT NULL, PRIMARY KEY (kind, name));

-- one row, whose lock puts all changes of failures in one order
CREATE TABLE @.ledger_changes (value @big NOT NULL, last_failure @big NOT NULL);
INSERT INTO @.ledger_changes VALUES (0, 0);

CREATE TABLE @.operations (
    number @serial,
    kind text NOT NULL,
    plan text NOT NULL,
    filter text NOT NULL,
    asked text NOT NULL,  -- what the request looked like: with the same key it has to be the same
    actor text NOT NULL,
    reason text NOT NULL,
    key text UNIQUE,
    state @small NOT NULL,
    told text NOT NULL,
    cutoff @big NOT NULL,  -- the number of the last change before the request
    matched @big NOT NULL,
    has_verdict @small NOT NULL,  -- whether the canaries have been judged
    batches integer NOT NULL,
    served integer NOT NULL,  -- how many of them have been staged: who has had least is next
    unknown_ids text NOT NULL,
    requested_at @time NOT NULL,
    not_before @time,
    started_at @time,
    ended_at @time,
    acknowledged_by text
);
CREATE INDEX @_operations_open ON @.operations (number) WHERE state NOT IN (6, 7);

-- the messages of an operation that have not had their turn yet, as lists of their numbers
CREATE TABLE @.operation_members (
    operation @big NOT NULL,
    last @big NOT NULL,  -- the largest of them
    numbers text NOT NULL,
    PRIMARY KEY (operation, last)
);

CREATE TABLE @.batches (
    number @serial,
    operation @big NOT NULL,
    lane text NOT NULL,
    state @small NOT NULL,
    session text NOT NULL,  -- the process that made it
    chosen text,  -- in state marking: the numbers of its failures
    is_canary @small NOT NULL,
    staging_id text,
    successor @big  -- has what was taken back, as the operation was paused
);
CREATE INDEX @_batches_operation ON @.batches (operation);
CREATE INDEX @_batches_lane ON @.batches (lane, state, operation, number);

-- One message in one operation. Its claim is the unique index: a message is PENDING or FORWARDED in one operation only.
-- All operations of one message are found through the operations, which are few: an index would cost each message more.
CREATE TABLE @.parts (
    operation @big NOT NULL,
    failure @big NOT NULL,
    batch @big NOT NULL,
    is_canary @small NOT NULL,
    outcome @small NOT NULL,
    reason text NOT NULL,
    at @time NOT NULL,
    PRIMARY KEY (operation, failure)
)@rowless;
CREATE UNIQUE INDEX @_parts_claim ON @.parts (failure) WHERE outcome IN (1, 2);
CREATE INDEX @_parts_pending ON @.parts (batch, failure) WHERE outcome = 1;

-- A lane sends to one destination, one batch at a time.
CREATE TABLE @.lanes (name text PRIMARY KEY, batch @big, next_at @time NOT NULL, strays @big NOT NULL DEFAULT 0);

CREATE TABLE @.leases (name text PRIMARY KEY, session text NOT NULL, token @big NOT NULL, until @time NOT NULL);

-- who serves, for people to see
CREATE TABLE @.services (session text PRIMARY KEY, host text NOT NULL, since @time NOT NULL, until @time NOT NULL);

CREATE TABLE @.redirects (queue text PRIMARY KEY, target text NOT NULL);

CREATE TABLE @.notes (
    number @serial,
    subject text NOT NULL,
    text text NOT NULL,
    actor text NOT NULL,
    at @time NOT NULL
);
CREATE INDEX @_notes_subject ON @.notes (subject, number);

CREATE TABLE @.audit (
    number @serial,
    at @time NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    reason text NOT NULL,
    outcome text NOT NULL
);
CREATE INDEX @_audit_subject ON @.audit (subject, number);

CREATE TABLE @.set_asides (
    number @serial,
    queue text NOT NULL,
    sequence @big NOT NULL,
    message_id text NOT NULL,
    properties text,
    dead_letter text,
    body @bytes NOT NULL,
    enqueued_at @time NOT NULL,
    reason text NOT NULL,
    at @time NOT NULL,
    UNIQUE (queue, sequence)
);
"""

KEYS = """
-- what the tags of recovered copies are sealed with
CREATE TABLE @.ledger_keys (name text PRIMARY KEY, value text NOT NULL);

-- A message is told from others by its number in its queue and, if that is declared again and counts anew, by its time.
ALTER TABLE @.set_asides RENAME TO @old_set_asides;
CREATE TABLE @.set_asides (
    number @serial,
    queue text NOT NULL,
    sequence @big NOT NULL,
    message_id text NOT NULL,
    properties text,
    dead_letter text,
    body @bytes NOT NULL,
    enqueued_at @time NOT NULL,
    reason text NOT NULL,
    at @time NOT NULL,
    UNIQUE (queue, sequence, enqueued_at)
);
INSERT INTO @.set_asides (queue, sequence, message_id, properties, dead_letter, body, enqueued_at, reason, at)
    SELECT queue, sequence, message_id, properties, dead_letter, body, enqueued_at, reason, at
    FROM @.old_set_asides ORDER BY number;
DROP TABLE @.old_set_asides;
"""

TRACES = """
-- stack traces without their ends, each once for all failures of a group that share it
CREATE TABLE @.failure_traces (
    exception_group text NOT NULL,
    digest @big NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (exception_group, digest)
);
ALTER TABLE @.failure_contents ADD COLUMN trace @big;  -- of the last failure; null: it is in the details
"""
