
        ALTER TABLE messages ADD COLUMN body BLOB;  -- of a small message; NULL: it is in bodies

        CREATE TRIGGER messages_removed AFTER DELETE ON messages WHEN old.body IS NULL BEGIN
            DELETE FROM bodies WHERE sequence = old.sequence;
        END;
        