-- What sending needs: numbers and their leases, campaigns and their parts, recipients, counters, contacts, suppressions.

CREATE TYPE campaign_state AS ENUM
    ('draft', 'scheduled', 'running', 'paused', 'completing', 'completed', 'cancelled');

CREATE TYPE recipient_state AS ENUM
    ('pending', 'sending', 'accepted', 'sent', 'delivered', 'read', 'failed', 'unknown', 'given_up',
     'deferred', 'cancelled', 'expired', 'suppressed');

CREATE TABLE numbers (
    phone_number_id text PRIMARY KEY,
    waba_id         text NOT NULL,
    portfolio_id    text NOT NULL,
    display         text NOT NULL DEFAULT '',
    limit_per_s     integer NOT NULL CHECK (limit_per_s BETWEEN 1 AND 1000),
    setting_per_s   integer NOT NULL CHECK (setting_per_s BETWEEN 0 AND limit_per_s),
    slot            integer NOT NULL CHECK (slot >= 0),
    connected_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row a number. The epoch only rises; a claim that carries an older one returns nothing.
CREATE TABLE number_leases (
    phone_number_id text PRIMARY KEY REFERENCES numbers ON DELETE CASCADE,
    epoch           bigint NOT NULL DEFAULT 0,
    owner           uuid,
    expires_at      timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

-- The start of the latest attempt of a number of which a status has come: proof that its statuses still arrive.
CREATE TABLE status_progress (
    phone_number_id text PRIMARY KEY,
    started_at      timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE throttles (
    scope  text NOT NULL CHECK (scope IN ('number', 'waba', 'app', 'template', 'portfolio')),
    key    text NOT NULL,
    until  timestamptz NOT NULL,
    code   integer,
    set_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (scope, key)
);

CREATE TABLE campaigns (
    campaign_id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name              text NOT NULL,
    portfolio_id      text NOT NULL,
    state             campaign_state NOT NULL DEFAULT 'draft',
    template_name     text NOT NULL,
    template_language text NOT NULL,
    body_columns      text[] NOT NULL,
    on_unknown        text NOT NULL CHECK (on_unknown IN ('resend', 'give_up')),
    unknown_wait_s    integer NOT NULL,
    valid_for_s       integer NOT NULL,
    tries_max         integer NOT NULL,
    numbers           text[] NOT NULL,
    audience_size     bigint NOT NULL DEFAULT 0,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    launched_at       timestamptz,
    valid_until       timestamptz,
    completing_at     timestamptz,
    ended_at          timestamptz,
    pause_actor       text,
    pause_reason      text,
    pause_evidence    text,
    pause_lifted_by   text
);

-- A contiguous range of a campaign's rows that one number sends. `cursor` is the last seq that was claimed.
CREATE TABLE parts (
    campaign_id     bigint NOT NULL REFERENCES campaigns ON DELETE CASCADE,
    part            integer NOT NULL,
    phone_number_id text NOT NULL REFERENCES numbers,
    seq_from        bigint NOT NULL,
    seq_to          bigint NOT NULL,
    cursor          bigint NOT NULL,
    PRIMARY KEY (campaign_id, part)
) WITH (fillfactor = 50);
CREATE INDEX parts_by_number ON parts (phone_number_id, campaign_id);

CREATE TABLE campaign_counters (
    campaign_id bigint NOT NULL,
    shard       smallint NOT NULL,
    state       recipient_state NOT NULL,
    n           bigint NOT NULL,
    PRIMARY KEY (campaign_id, shard, state)
) WITH (fillfactor = 50);

-- Rows of a draft's audience, before it is frozen. One row a person: `folded` is equal for all variants of a number.
CREATE TABLE audience_rows (
    campaign_id bigint NOT NULL REFERENCES campaigns ON DELETE CASCADE,
    folded      text NOT NULL,
    line        bigint NOT NULL,
    address     text NOT NULL,
    params      text[] NOT NULL,
    PRIMARY KEY (campaign_id, folded)
);

-- The frozen part of a recipient; seq runs from 1 without gaps.
CREATE TABLE recipients (
    campaign_id bigint NOT NULL,
    seq         bigint NOT NULL,
    contact_id  bigint NOT NULL,
    line        bigint NOT NULL,
    address     text NOT NULL,
    params      text[] NOT NULL,
    PRIMARY KEY (campaign_id, seq),
    UNIQUE (campaign_id, contact_id)
) PARTITION BY RANGE (campaign_id);

-- The hot part of a recipient: narrow, no index but its key, so that updates stay HOT.
CREATE TABLE recipient_states (
    campaign_id  bigint NOT NULL,
    seq          bigint NOT NULL,
    state        recipient_state NOT NULL,
    attempt      integer NOT NULL DEFAULT 0,   -- the current POST; 0: none
    attempt_last integer NOT NULL DEFAULT 0,   -- the highest number ever used; never reused
    tries        smallint NOT NULL DEFAULT 0,  -- the budget spent
    proof        smallint NOT NULL DEFAULT 0,  -- rank proven of the current attempt
    best         smallint NOT NULL DEFAULT 0,  -- the best of delivered (4) and read (5) of any attempt; 0: neither
    code         integer,                      -- of the winning failure
    reason       text,
    started_at   timestamptz,                  -- when the current attempt was claimed
    sent_at      timestamptz,                  -- of the current attempt, Meta's time
    failed_at    timestamptz,                  -- of the current attempt
    delivered_at timestamptz,                  -- the earliest of any attempt, Meta's time
    read_at      timestamptz,
    PRIMARY KEY (campaign_id, seq)
) PARTITION BY RANGE (campaign_id);

-- Attempts that are no longer current: what was proven of them, and the state in which the next claim found the row.
CREATE TABLE earlier_attempts (
    campaign_id bigint NOT NULL,
    seq         bigint NOT NULL,
    attempt     integer NOT NULL,
    state       recipient_state,
    reason      text,
    proof       smallint NOT NULL,
    code        integer,
    started_at  timestamptz,
    sent_at     timestamptz,
    failed_at   timestamptz,
    PRIMARY KEY (campaign_id, seq, attempt)
);

-- What may be claimed again, and from when on.
CREATE TABLE due (
    campaign_id     bigint NOT NULL,
    seq             bigint NOT NULL,
    phone_number_id text NOT NULL,
    due_at          timestamptz NOT NULL,
    PRIMARY KEY (campaign_id, seq)
);
CREATE INDEX due_by_number ON due (phone_number_id, campaign_id, due_at);

-- Rows whose answer was lost, waiting for a status or for their campaign's policy.
CREATE TABLE unknown_rows (
    campaign_id     bigint NOT NULL,
    seq             bigint NOT NULL,
    phone_number_id text NOT NULL,
    since           timestamptz NOT NULL,
    note_id         bigint,
    PRIMARY KEY (campaign_id, seq)
);

-- The end offsets of message-statuses at a moment; a resend waits until the aggregator is past them.
CREATE TABLE status_notes (
    note_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    noted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    offsets    jsonb NOT NULL,
    reached_at timestamptz
);

-- One row a claim, deleted when its rows are settled. Reclaim looks only here.
CREATE TABLE claim_batches (
    name            uuid PRIMARY KEY,
    phone_number_id text NOT NULL,
    epoch           bigint NOT NULL,
    campaign_id     bigint NOT NULL,
    claimed_at      timestamptz NOT NULL,
    seqs            bigint[] NOT NULL,
    attempts        integer[] NOT NULL
);

CREATE TABLE wamids (
    wamid       text PRIMARY KEY,
    campaign_id bigint NOT NULL,
    seq         bigint NOT NULL,
    attempt     integer NOT NULL
);
CREATE INDEX wamids_by_row ON wamids (campaign_id, seq);

-- Statuses without callback data that came before the wamid of their message was stored.
CREATE TABLE parked_statuses (
    wamid           text PRIMARY KEY,
    phone_number_id text NOT NULL,
    recipient       text NOT NULL DEFAULT '',  -- folded
    sent_at         timestamptz,
    delivered_at    timestamptz,
    read_at         timestamptz,
    failed_at       timestamptz,
    code            integer,
    retry_in_s      double precision,
    parked_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TYPE parked_join AS (
    campaigns bigint[], seqs bigint[], attempts integer[], numbers text[], sent timestamptz[], delivered timestamptz[],
    read timestamptz[], failed timestamptz[], codes integer[], retry_in_s double precision[]
);

CREATE SEQUENCE contact_ids;
CREATE TABLE contacts (
    contact_id   bigint PRIMARY KEY DEFAULT nextval('contact_ids'),
    portfolio_id text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE contact_identities (
    portfolio_id text NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('phone', 'bsuid', 'parent_bsuid')),
    value        text NOT NULL,
    contact_id   bigint NOT NULL,
    PRIMARY KEY (portfolio_id, kind, value)
);
CREATE INDEX contact_identities_by_contact ON contact_identities (contact_id);

CREATE TABLE suppressions (
    contact_id bigint PRIMARY KEY,
    reason     text NOT NULL CHECK (reason IN ('opted_out', 'blocked')),
    source     text NOT NULL,
    since      timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One leader among the orchestrators.
CREATE TABLE leaders (
    role       text PRIMARY KEY,
    owner      uuid,
    expires_at timestamptz NOT NULL DEFAULT '-infinity'
);
