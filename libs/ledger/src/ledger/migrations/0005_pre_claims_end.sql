-- Each claim says itself when its rows are nobody's; who claims with other times than another decides only for his own.
-- The default is for claims by the release before. A claim that was reclaimed is still known for a while, so that an
-- owner that lost its answer can say that none of its rows was ever started.
ALTER TABLE claim_batches
    ADD COLUMN ends_at timestamptz NOT NULL DEFAULT clock_timestamp() + interval '7 s',
    ADD COLUMN reclaimed_at timestamptz;
