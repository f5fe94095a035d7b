-- Which dead letters were replayed, last by whom. A letter is named by its place and the moment it was written, so that
-- those of a topic that was made anew aren't taken for it. A row outlives its letter by some days, then it goes.
CREATE TABLE dead_letter_replays (
    topic         text NOT NULL,
    partition     integer NOT NULL,
    letter_offset bigint NOT NULL,
    written_at_ms bigint NOT NULL,
    actor         text NOT NULL,
    replayed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (topic, partition, letter_offset, written_at_ms)
);
