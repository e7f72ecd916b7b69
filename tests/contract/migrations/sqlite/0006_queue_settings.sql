
        -- which change of the queues was the last of this one, so that others read only what has changed
        ALTER TABLE redrive_queues ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX redrive_queues_version ON redrive_queues (version);
        INSERT INTO redrive_counters VALUES ('queues_deleted', 0);
        