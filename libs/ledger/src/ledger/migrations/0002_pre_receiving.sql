-- What receiving needs: the inbox and who waits in it, conversations and their windows, the outbox of events.

-- A contact that was merged stays as an alias, since frozen audiences name it.
ALTER TABLE contacts
    ADD COLUMN merged_into bigint,
    ADD COLUMN consent_at  timestamptz;  -- own time of the last message that gave or withdrew consent
CREATE INDEX contacts_by_merge ON contacts (merged_into) WHERE merged_into IS NOT NULL;

-- Each message once: unique by week of its own time, number and wamid. `week` counts weeks since 1970.
CREATE TABLE inbox (
    week            bigint NOT NULL,
    phone_number_id text NOT NULL,
    wamid           text NOT NULL,
    seen_id         bigint NOT NULL,       -- rises with arrival
    contact_key     text NOT NULL,
    timestamp_s     bigint NOT NULL,       -- the message's own time
    closes_at_s     bigint,                -- end of the window it opens; NULL: it opens none
    consent         text CHECK (consent IN ('opted_out', 'opted_in')),
    identity_kinds  text[] NOT NULL,
    identity_values text[] NOT NULL,
    record          bytea NOT NULL,        -- bytes, as jsonb refuses what people may write (NUL)
    seen_at         timestamptz NOT NULL,
    handled_at      timestamptz,
    contact_id      bigint,                -- this and the turn are known once it is handled
    turn            bigint,
    fault           text,                  -- why it could not be handled, an SQLSTATE or a word; then nothing else was done
    PRIMARY KEY (week, phone_number_id, wamid)
) PARTITION BY RANGE (week);
CREATE SEQUENCE inbox_calls;

-- Messages seen and not handled, in the order in which their contact key's lane takes them.
CREATE TABLE inbox_waiting (
    contact_key     text NOT NULL,
    timestamp_s     bigint NOT NULL,
    received_s      double precision NOT NULL,  -- one webhook's messages share it: only among them does position count
    position        integer NOT NULL,
    seen_id         bigint NOT NULL,
    due_at          timestamptz NOT NULL,
    week            bigint NOT NULL,
    phone_number_id text NOT NULL,
    wamid           text NOT NULL,
    PRIMARY KEY (contact_key, timestamp_s, received_s, position, seen_id)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- One row a contact key with messages waiting: its lock is the right to take them.
CREATE TABLE inbox_lanes (
    contact_key text PRIMARY KEY,
    due_at      timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX inbox_lanes_by_due ON inbox_lanes (due_at);

-- `turn` counts the handled messages of a number and a contact; `version` rises with every change.
CREATE TABLE conversations (
    contact_id       bigint NOT NULL,
    phone_number_id  text NOT NULL,
    turn             bigint NOT NULL,
    version          bigint NOT NULL,
    last_inbound_at  timestamptz,  -- own time of the newest message that opens a window
    window_closes_at timestamptz,
    PRIMARY KEY (contact_id, phone_number_id)
) WITH (fillfactor = 70);

-- Events that are committed and not yet known to be on the topic.
CREATE TABLE outbox (
    contact_key     text NOT NULL,
    outbox_id       bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    taken_at        timestamptz NOT NULL,  -- by whom publishes it; long ago: by nobody who still lives
    week            bigint NOT NULL,
    phone_number_id text NOT NULL,
    wamid           text NOT NULL,
    contact_id      bigint NOT NULL,
    turn            bigint NOT NULL,
    closes_at_s     bigint,
    PRIMARY KEY (contact_key, outbox_id)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
