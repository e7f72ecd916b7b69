
ALTER TABLE @.group_states ADD COLUMN wake_above bigint;  -- how many may be unresolved while it is snoozed

-- nothing has counted these since the table was made
UPDATE @.group_states AS s SET succeeded = c.succeeded, failed_again = c.failed_again
    FROM (SELECT f.exception_group AS id, count(CASE p.outcome WHEN 3 THEN 1 END) AS succeeded,
        count(CASE p.outcome WHEN 4 THEN 1 END) AS failed_again
        FROM @.parts p JOIN @.failures f ON f.number = p.failure WHERE p.outcome IN (3, 4) GROUP BY f.exception_group) c
    WHERE c.id = s.id;
