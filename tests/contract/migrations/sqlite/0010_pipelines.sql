
CREATE TABLE redrive_pipeline_versions (
    pipeline text NOT NULL,
    version integer NOT NULL,
    definition text NOT NULL,
    made_at real NOT NULL,
    PRIMARY KEY (pipeline, version)
);

CREATE TABLE redrive_pipeline_destinations (
    pipeline text NOT NULL,
    name text NOT NULL,
    since real NOT NULL,  -- slots before that are none
    is_held integer NOT NULL,
    reason text NOT NULL,
    last_slot real,
    next_at real NOT NULL,  -- when the rate allows the next shipment
    PRIMARY KEY (pipeline, name)
);

CREATE TABLE redrive_pipeline_submissions (
    pipeline text NOT NULL,
    key text NOT NULL,
    digest text NOT NULL,
    task text NOT NULL,
    accepted_at real NOT NULL,
    PRIMARY KEY (pipeline, key)
) WITHOUT ROWID;
CREATE INDEX redrive_pipeline_submissions_age ON redrive_pipeline_submissions (accepted_at);

-- What is to be done, and what was done. An id begins with its time, so that new rows are beside each other.
CREATE TABLE redrive_pipeline_tasks (
    id text PRIMARY KEY,
    pipeline text NOT NULL,
    stage text NOT NULL,
    destination text NOT NULL,  -- empty: not known yet
    state integer NOT NULL,
    due_at real NOT NULL,
    not_after real,
    epoch integer NOT NULL,
    retries integer NOT NULL,
    retry_items text NOT NULL,  -- a list in JSON
    item_count integer NOT NULL,
    size integer NOT NULL,
    version integer NOT NULL,
    slot_at real,
    reason text NOT NULL,
    created_at real NOT NULL,
    changed_at real NOT NULL
);
-- what is not done is found by the time at which it should have been; what is done costs these indexes nothing
CREATE INDEX redrive_pipeline_tasks_due ON redrive_pipeline_tasks (due_at) WHERE state IN (1, 2);
CREATE INDEX redrive_pipeline_tasks_waiting ON redrive_pipeline_tasks (pipeline, destination, id, created_at, item_count, size)
    WHERE state = 2;  -- with all that is counted
CREATE INDEX redrive_pipeline_tasks_expiring ON redrive_pipeline_tasks (not_after) WHERE state = 2;
CREATE INDEX redrive_pipeline_tasks_troubled ON redrive_pipeline_tasks (due_at) WHERE state IN (4, 5, 6);
CREATE INDEX redrive_pipeline_tasks_ended ON redrive_pipeline_tasks (changed_at) WHERE state IN (3, 7);

CREATE TABLE redrive_pipeline_bodies (id text PRIMARY KEY, body blob NOT NULL);

-- The items of each task. The parent of an item is its place in the task before: together they are the lineage.
CREATE TABLE redrive_pipeline_items (
    task text NOT NULL,
    position integer NOT NULL,
    item text NOT NULL,
    parent_task text,
    parent_position integer,
    shipment integer,
    body text NOT NULL,
    size integer NOT NULL,
    PRIMARY KEY (task, position)
) WITHOUT ROWID;
CREATE INDEX redrive_pipeline_items_parent ON redrive_pipeline_items (parent_task, parent_position)
    WHERE parent_task IS NOT NULL;
CREATE INDEX redrive_pipeline_items_item ON redrive_pipeline_items (item);

CREATE TABLE redrive_pipeline_shipments (
    task text NOT NULL,
    position integer NOT NULL,
    delivery_id text NOT NULL,
    state integer NOT NULL,
    attempt integer NOT NULL,
    item_count integer NOT NULL,
    content_type text,
    body text NOT NULL,
    receipt text NOT NULL,
    reason text NOT NULL,
    changed_at real NOT NULL,
    PRIMARY KEY (task, position)
) WITHOUT ROWID;
CREATE INDEX redrive_pipeline_shipments_intent ON redrive_pipeline_shipments (changed_at) WHERE state = 2;

CREATE TABLE redrive_pipeline_slots (
    pipeline text NOT NULL,
    destination text NOT NULL,
    at real NOT NULL,
    state integer NOT NULL,
    closed_by text NOT NULL,
    tasks integer NOT NULL,
    is_empty integer NOT NULL,
    reason text NOT NULL,
    changed_at real NOT NULL,
    PRIMARY KEY (pipeline, destination, at)
);
CREATE INDEX redrive_pipeline_slots_open ON redrive_pipeline_slots (pipeline, destination) WHERE state = 1;

CREATE TABLE redrive_pipeline_actions (
    number integer PRIMARY KEY AUTOINCREMENT,
    task text NOT NULL,
    pipeline text NOT NULL,
    destination text NOT NULL,
    name text NOT NULL,
    attempt integer NOT NULL,
    at real NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL  -- JSON
);
CREATE INDEX redrive_pipeline_actions_task ON redrive_pipeline_actions (task, number);

-- --- for people

CREATE VIEW redrive_task AS SELECT id AS task_id, pipeline, stage AS next_action,
    CASE state WHEN 1 THEN 'ready' WHEN 2 THEN 'waiting' WHEN 3 THEN 'done' WHEN 4 THEN 'failed' WHEN 5 THEN 'expired'
        WHEN 6 THEN 'unknown' ELSE 'cancelled' END AS state,
    datetime(due_at, 'unixepoch') AS next_action_at, destination, item_count, size, retries, retry_items, version, reason,
    datetime(slot_at, 'unixepoch') AS slot_at, datetime(not_after, 'unixepoch') AS not_after, datetime(created_at, 'unixepoch') AS created_at,
    datetime(changed_at, 'unixepoch') AS changed_at FROM redrive_pipeline_tasks;

CREATE VIEW redrive_action AS SELECT number AS action_id, task AS task_id, pipeline, destination, name AS action_name,
    attempt, datetime(at, 'unixepoch') AS created_at, actor, reason, detail FROM redrive_pipeline_actions;

CREATE VIEW redrive_lineage AS SELECT item AS item_id, parent_task AS parent_task_id, parent_position AS parent_index,
    task AS child_task_id, position AS child_index, shipment AS effect_index FROM redrive_pipeline_items;

CREATE VIEW redrive_effect AS SELECT delivery_id, task AS task_id, position AS effect_index,
    CASE state WHEN 1 THEN 'pending' WHEN 2 THEN 'intent' WHEN 3 THEN 'sent' WHEN 4 THEN 'refused' ELSE 'unknown' END
        AS state,
    attempt, item_count, receipt, reason, datetime(changed_at, 'unixepoch') AS changed_at FROM redrive_pipeline_shipments;

CREATE VIEW redrive_slot AS SELECT pipeline, destination, datetime(at, 'unixepoch') AS slot_at,
    CASE state WHEN 1 THEN 'open' WHEN 2 THEN 'served' ELSE 'failed' END AS state, closed_by, tasks, is_empty, reason,
    datetime(changed_at, 'unixepoch') AS changed_at FROM redrive_pipeline_slots;

-- what should have been done a quarter of an hour ago, by the index of what is not done, and by that of what failed
CREATE VIEW redrive_stuck_process AS SELECT t.* FROM redrive_task AS t JOIN redrive_pipeline_tasks AS p ON p.id = t.task_id
    WHERE p.stage = 'process' AND p.state IN (1, 2) AND p.due_at < ((julianday('now') - 2440587.5) * 86400.0) - 900
    UNION ALL SELECT t.* FROM redrive_task AS t JOIN redrive_pipeline_tasks AS p ON p.id = t.task_id
    WHERE p.stage = 'process' AND p.state IN (4, 5, 6) AND p.due_at < ((julianday('now') - 2440587.5) * 86400.0) - 900;
CREATE VIEW redrive_stuck_batch AS SELECT t.* FROM redrive_task AS t JOIN redrive_pipeline_tasks AS p ON p.id = t.task_id
    WHERE p.stage = 'batch' AND p.state IN (1, 2) AND p.due_at < ((julianday('now') - 2440587.5) * 86400.0) - 900
    UNION ALL SELECT t.* FROM redrive_task AS t JOIN redrive_pipeline_tasks AS p ON p.id = t.task_id
    WHERE p.stage = 'batch' AND p.state IN (4, 5, 6) AND p.due_at < ((julianday('now') - 2440587.5) * 86400.0) - 900;
CREATE VIEW redrive_stuck_send AS SELECT t.* FROM redrive_task AS t JOIN redrive_pipeline_tasks AS p ON p.id = t.task_id
    WHERE p.stage = 'send' AND p.state IN (1, 2) AND p.due_at < ((julianday('now') - 2440587.5) * 86400.0) - 900
    UNION ALL SELECT t.* FROM redrive_task AS t JOIN redrive_pipeline_tasks AS p ON p.id = t.task_id
    WHERE p.stage = 'send' AND p.state IN (4, 5, 6) AND p.due_at < ((julianday('now') - 2440587.5) * 86400.0) - 900;
CREATE VIEW redrive_failed_sends AS SELECT t.* FROM redrive_task AS t JOIN redrive_pipeline_tasks AS p ON p.id = t.task_id
    WHERE p.stage = 'send' AND p.state IN (4, 5, 6);
