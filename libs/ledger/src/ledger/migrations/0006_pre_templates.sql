-- What Meta last said of a template's state. An older event never overwrites a newer one.
CREATE TABLE templates (
    waba_id    text NOT NULL,
    name       text NOT NULL,
    language   text NOT NULL,
    state      text NOT NULL,
    reason     text,
    changed_at timestamptz NOT NULL,  -- Meta's time of the event
    PRIMARY KEY (waba_id, name, language)
);
