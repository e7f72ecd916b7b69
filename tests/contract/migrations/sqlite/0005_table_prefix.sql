
        DROP TRIGGER messages_removed;
        DROP INDEX messages_place;
        DROP INDEX messages_session;
        DROP INDEX messages_due;
        DROP INDEX messages_expiring;
        DROP INDEX seen_ids_until;
        ALTER TABLE queues RENAME TO redrive_queues;
        ALTER TABLE messages RENAME TO redrive_messages;
        ALTER TABLE bodies RENAME TO redrive_bodies;
        ALTER TABLE sessions RENAME TO redrive_sessions;
        ALTER TABLE seen_ids RENAME TO redrive_seen_ids;
        ALTER TABLE counters RENAME TO redrive_counters;
        CREATE INDEX redrive_messages_place ON redrive_messages (queue, state, sequence);
        CREATE INDEX redrive_messages_session ON redrive_messages (queue, session, sequence)
            WHERE session IS NOT NULL;
        CREATE INDEX redrive_messages_due ON redrive_messages (due) WHERE due IS NOT NULL;
        CREATE INDEX redrive_messages_expiring ON redrive_messages (expires) WHERE expires IS NOT NULL;
        CREATE INDEX redrive_seen_ids_until ON redrive_seen_ids (until);
        CREATE TRIGGER redrive_messages_removed AFTER DELETE ON redrive_messages WHEN old.body IS NULL BEGIN
            DELETE FROM redrive_bodies WHERE sequence = old.sequence;
        END;
        