
        ALTER TABLE redrive_queues ADD COLUMN topic TEXT;  -- the settings of a topic
        ALTER TABLE redrive_queues ADD COLUMN subscribes INTEGER;  -- of a subscription: the topic
        ALTER TABLE redrive_queues ADD COLUMN rule TEXT;  -- and which messages it gets
        ALTER TABLE redrive_queues ADD COLUMN unmatched INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX redrive_queues_subscribes ON redrive_queues (subscribes) WHERE subscribes IS NOT NULL;

        -- a body that several messages share, since they were sent to a topic together
        CREATE TABLE redrive_contents (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
        ALTER TABLE redrive_messages ADD COLUMN content INTEGER;
        CREATE INDEX redrive_messages_content ON redrive_messages (content) WHERE content IS NOT NULL;
        DROP TRIGGER redrive_messages_removed;
        CREATE TRIGGER redrive_messages_removed AFTER DELETE ON redrive_messages WHEN old.body IS NULL BEGIN
            DELETE FROM redrive_bodies WHERE sequence = old.sequence;
            DELETE FROM redrive_contents WHERE id = old.content
                AND NOT EXISTS (SELECT 1 FROM redrive_messages WHERE content = old.content);
        END;
        