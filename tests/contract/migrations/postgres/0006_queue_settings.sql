
ALTER TABLE @.queues ADD COLUMN settings jsonb;
UPDATE @.queues SET settings = jsonb_build_object(
    'lock_duration', lock_duration, 'max_delivery_count', max_delivery_count, 'default_ttl', default_ttl,
    'dead_letter_on_expiration', dead_letter_on_expiration, 'auto_delete_on_idle', auto_delete_on_idle,
    'duplicate_detection', duplicate_detection, 'requires_session', requires_session,
    'max_message_bytes', max_message_bytes);
ALTER TABLE @.queues ALTER COLUMN settings SET NOT NULL,
    DROP COLUMN lock_duration, DROP COLUMN max_delivery_count, DROP COLUMN default_ttl,
    DROP COLUMN dead_letter_on_expiration, DROP COLUMN auto_delete_on_idle, DROP COLUMN duplicate_detection,
    DROP COLUMN requires_session, DROP COLUMN max_message_bytes;
ALTER TABLE @.queues
    ADD COLUMN lock_duration float8 NOT NULL
        GENERATED ALWAYS AS ((settings ->> 'lock_duration')::float8) STORED,
    ADD COLUMN max_delivery_count integer NOT NULL
        GENERATED ALWAYS AS ((settings ->> 'max_delivery_count')::integer) STORED,
    ADD COLUMN dead_letter_on_expiration boolean NOT NULL
        GENERATED ALWAYS AS ((settings ->> 'dead_letter_on_expiration')::boolean) STORED,
    ADD COLUMN auto_delete_on_idle float8
        GENERATED ALWAYS AS ((settings ->> 'auto_delete_on_idle')::float8) STORED;
