-- Each claim says itself when its rows are nobody's; who claims with other times than another decides only for his own.
-- The default is for claims by the release before.
ALTER TABLE claim_batches ADD COLUMN ends_at timestamptz NOT NULL DEFAULT clock_timestamp() + interval '7 s';
