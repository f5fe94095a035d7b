-- What an operator has halted. Each row stays until it is lifted by name; `all` has the key `*`.
CREATE TABLE halts (
    scope  text NOT NULL CHECK (scope IN ('campaign', 'number', 'waba', 'all')),
    key    text NOT NULL,
    actor  text NOT NULL,
    reason text NOT NULL,
    since  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (scope, key)
);
