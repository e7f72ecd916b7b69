
        CREATE TABLE queues (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL UNIQUE,
            source INTEGER REFERENCES queues (id),  -- of a dead-letter queue: whose
            settings TEXT NOT NULL,
            created_at REAL NOT NULL,
            used_at REAL NOT NULL
        );

        CREATE TABLE messages (
            sequence INTEGER PRIMARY KEY AUTOINCREMENT,  -- a number is never used twice
            queue INTEGER NOT NULL,
            state INTEGER NOT NULL,
            due REAL,
            token INTEGER,
            delivery_count INTEGER NOT NULL,
            enqueued_at REAL NOT NULL,
            expires REAL,
            id TEXT NOT NULL,
            session TEXT,  -- only in queues that are received by session
            properties TEXT,
            dead_letter TEXT
        );
        CREATE INDEX messages_place ON messages (queue, state, sequence);
        CREATE INDEX messages_session ON messages (queue, session, sequence) WHERE session IS NOT NULL;
        CREATE INDEX messages_due ON messages (due) WHERE due IS NOT NULL;
        CREATE INDEX messages_expiring ON messages (expires) WHERE expires IS NOT NULL;

        -- apart, so that locking a message does not rewrite what it carries
        CREATE TABLE bodies (sequence INTEGER PRIMARY KEY, body BLOB NOT NULL);

        CREATE TABLE sessions (
            queue INTEGER NOT NULL,
            session TEXT NOT NULL,
            token INTEGER,
            locked_until REAL,
            state BLOB,
            PRIMARY KEY (queue, session)
        ) WITHOUT ROWID;

        CREATE TABLE seen_ids (
            queue INTEGER NOT NULL,
            id TEXT NOT NULL,
            until REAL NOT NULL,
            PRIMARY KEY (queue, id)
        ) WITHOUT ROWID;
        CREATE INDEX seen_ids_until ON seen_ids (until);

        CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
        INSERT INTO counters VALUES ('queues_version', 0);
        