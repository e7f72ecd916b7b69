# SPDX-License-Identifier: MIT
"""The tables of the pipelines' ledger, and views for people: each engine puts its own words for the types.

The tables have times in seconds since 1970 and states as numbers; the views have both as a person reads them.
"""

PIPELINES = """
CREATE TABLE @.pipeline_versions (
    pipeline text NOT NULL,
    version @big NOT NULL,
    definition text NOT NULL,
    made_at @time NOT NULL,
    PRIMARY KEY (pipeline, version)
);

CREATE TABLE @.pipeline_destinations (
    pipeline text NOT NULL,
    name text NOT NULL,
    since @time NOT NULL,  -- slots before that are none
    is_held @small NOT NULL,
    reason text NOT NULL,
    last_slot @time,
    next_at @time NOT NULL,  -- when the rate allows the next shipment
    PRIMARY KEY (pipeline, name)
);

CREATE TABLE @.pipeline_submissions (
    pipeline text NOT NULL,
    key text NOT NULL,
    digest text NOT NULL,
    task text NOT NULL,
    accepted_at @time NOT NULL,
    PRIMARY KEY (pipeline, key)
)@rowless;
CREATE INDEX @_pipeline_submissions_age ON @.pipeline_submissions (accepted_at);

-- What is to be done, and what was done. An id begins with its time, so that new rows are beside each other.
CREATE TABLE @.pipeline_tasks (
    id text PRIMARY KEY,
    pipeline text NOT NULL,
    stage text NOT NULL,
    destination text NOT NULL,  -- empty: not known yet
    state @small NOT NULL,
    due_at @time NOT NULL,
    not_after @time,
    epoch integer NOT NULL,
    retries integer NOT NULL,
    retry_items text NOT NULL,  -- a list in JSON
    item_count integer NOT NULL,
    size @big NOT NULL,
    version @big NOT NULL,
    slot_at @time,
    reason text NOT NULL,
    created_at @time NOT NULL,
    changed_at @time NOT NULL
);
-- what is not done is found by the time at which it should have been; what is done costs these indexes nothing
CREATE INDEX @_pipeline_tasks_due ON @.pipeline_tasks (due_at) WHERE state IN (1, 2);
CREATE INDEX @_pipeline_tasks_waiting ON @.pipeline_tasks (pipeline, destination, id, created_at, item_count, size)
    WHERE state = 2;  -- with all that is counted
CREATE INDEX @_pipeline_tasks_expiring ON @.pipeline_tasks (not_after) WHERE state = 2;
CREATE INDEX @_pipeline_tasks_troubled ON @.pipeline_tasks (due_at) WHERE state IN (4, 5, 6);
CREATE INDEX @_pipeline_tasks_ended ON @.pipeline_tasks (changed_at) WHERE state IN (3, 7);

CREATE TABLE @.pipeline_bodies (id text PRIMARY KEY, body @bytes NOT NULL);

-- The items of each task. The parent of an item is its place in the task before: together they are the lineage.
CREATE TABLE @.pipeline_items (
    task text NOT NULL,
    position integer NOT NULL,
    item text NOT NULL,
    parent_task text,
    parent_position integer,
    shipment integer,
    body text NOT NULL,
    size @big NOT NULL,
    PRIMARY KEY (task, position)
)@rowless;
CREATE INDEX @_pipeline_items_parent ON @.pipeline_items (parent_task, parent_position)
    WHERE parent_task IS NOT NULL;
CREATE INDEX @_pipeline_items_item ON @.pipeline_items (item);

CREATE TABLE @.pipeline_shipments (
    task text NOT NULL,
    position integer NOT NULL,
    delivery_id text NOT NULL,
    state @small NOT NULL,
    attempt integer NOT NULL,
    item_count integer NOT NULL,
    content_type text,
    body text NOT NULL,
    receipt text NOT NULL,
    reason text NOT NULL,
    changed_at @time NOT NULL,
    PRIMARY KEY (task, position)
)@rowless;
CREATE INDEX @_pipeline_shipments_intent ON @.pipeline_shipments (changed_at) WHERE state = 2;

CREATE TABLE @.pipeline_slots (
    pipeline text NOT NULL,
    destination text NOT NULL,
    at @time NOT NULL,
    state @small NOT NULL,
    closed_by text NOT NULL,
    tasks integer NOT NULL,
    is_empty @small NOT NULL,
    reason text NOT NULL,
    changed_at @time NOT NULL,
    PRIMARY KEY (pipeline, destination, at)
);
CREATE INDEX @_pipeline_slots_open ON @.pipeline_slots (pipeline, destination) WHERE state = 1;

CREATE TABLE @.pipeline_actions (
    number @serial,
    task text NOT NULL,
    pipeline text NOT NULL,
    destination text NOT NULL,
    name text NOT NULL,
    attempt integer NOT NULL,
    at @time NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL  -- JSON
);
CREATE INDEX @_pipeline_actions_task ON @.pipeline_actions (task, number);

-- --- for people

CREATE VIEW @.task AS SELECT id AS task_id, pipeline, stage AS next_action,
    CASE state WHEN 1 THEN 'ready' WHEN 2 THEN 'waiting' WHEN 3 THEN 'done' WHEN 4 THEN 'failed' WHEN 5 THEN 'expired'
        WHEN 6 THEN 'unknown' ELSE 'cancelled' END AS state,
    @at(due_at@) AS next_action_at, destination, item_count, size, retries, retry_items, version, reason,
    @at(slot_at@) AS slot_at, @at(not_after@) AS not_after, @at(created_at@) AS created_at,
    @at(changed_at@) AS changed_at FROM @.pipeline_tasks;

CREATE VIEW @.action AS SELECT number AS action_id, task AS task_id, pipeline, destination, name AS action_name,
    attempt, @at(at@) AS created_at, actor, reason, detail FROM @.pipeline_actions;

CREATE VIEW @.lineage AS SELECT item AS item_id, parent_task AS parent_task_id, parent_position AS parent_index,
    task AS child_task_id, position AS child_index, shipment AS effect_index FROM @.pipeline_items;

CREATE VIEW @.effect AS SELECT delivery_id, task AS task_id, position AS effect_index,
    CASE state WHEN 1 THEN 'pending' WHEN 2 THEN 'intent' WHEN 3 THEN 'sent' WHEN 4 THEN 'refused' ELSE 'unknown' END
        AS state,
    attempt, item_count, receipt, reason, @at(changed_at@) AS changed_at FROM @.pipeline_shipments;

CREATE VIEW @.slot AS SELECT pipeline, destination, @at(at@) AS slot_at,
    CASE state WHEN 1 THEN 'open' WHEN 2 THEN 'served' ELSE 'failed' END AS state, closed_by, tasks, is_empty, reason,
    @at(changed_at@) AS changed_at FROM @.pipeline_slots;

-- what should have been done a quarter of an hour ago, by the index of what is not done, and by that of what failed
CREATE VIEW @.stuck_process AS SELECT t.* FROM @.task AS t JOIN @.pipeline_tasks AS p ON p.id = t.task_id
    WHERE p.stage = 'process' AND p.state IN (1, 2) AND p.due_at < @now - 900
    UNION ALL SELECT t.* FROM @.task AS t JOIN @.pipeline_tasks AS p ON p.id = t.task_id
    WHERE p.stage = 'process' AND p.state IN (4, 5, 6) AND p.due_at < @now - 900;
CREATE VIEW @.stuck_batch AS SELECT t.* FROM @.task AS t JOIN @.pipeline_tasks AS p ON p.id = t.task_id
    WHERE p.stage = 'batch' AND p.state IN (1, 2) AND p.due_at < @now - 900
    UNION ALL SELECT t.* FROM @.task AS t JOIN @.pipeline_tasks AS p ON p.id = t.task_id
    WHERE p.stage = 'batch' AND p.state IN (4, 5, 6) AND p.due_at < @now - 900;
CREATE VIEW @.stuck_send AS SELECT t.* FROM @.task AS t JOIN @.pipeline_tasks AS p ON p.id = t.task_id
    WHERE p.stage = 'send' AND p.state IN (1, 2) AND p.due_at < @now - 900
    UNION ALL SELECT t.* FROM @.task AS t JOIN @.pipeline_tasks AS p ON p.id = t.task_id
    WHERE p.stage = 'send' AND p.state IN (4, 5, 6) AND p.due_at < @now - 900;
CREATE VIEW @.failed_sends AS SELECT t.* FROM @.task AS t JOIN @.pipeline_tasks AS p ON p.id = t.task_id
    WHERE p.stage = 'send' AND p.state IN (4, 5, 6);
"""

ITEM_INDEX = """
-- an item is found by the task that it was submitted with, of which its id has the id
DROP INDEX @.pipeline_items_item;
"""
