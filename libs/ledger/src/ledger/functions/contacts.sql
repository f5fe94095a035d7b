-- Who a person is: one contact a portfolio for all identities that one message ties together.
-- A contact's row lock is the lease on that contact: whoever works for it, or merges it, holds it.

-- Find or create the contact of these identities, merge those it turns out to be, and hold its lock until the
-- transaction ends. No identity stands twice in the arguments. Answers the id; 0 when nothing is known of the person.
CREATE OR REPLACE FUNCTION contact_of(p_portfolio text, p_kinds text[], p_values text[]) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_wanted integer := coalesce(cardinality(p_kinds), 0);
    v_ids bigint[];
    v_known integer;
    v_count integer;
    v_new bigint;
BEGIN
    IF v_wanted = 0 THEN
        RETURN 0;
    END IF;
    FOR v_try IN 1..20 LOOP
        SELECT array_agg(DISTINCT i.contact_id ORDER BY i.contact_id), count(*) INTO v_ids, v_known
        FROM unnest(p_kinds, p_values) AS u(kind, value)
        -- The limit keeps the planner at one look-up each: without statistics a join would read the whole portfolio.
        CROSS JOIN LATERAL (SELECT i.contact_id FROM contact_identities i WHERE i.portfolio_id = p_portfolio
                            AND i.kind = u.kind AND i.value = u.value LIMIT 1) i;
        IF v_ids IS NULL THEN
            v_new := nextval('contact_ids');
            INSERT INTO contact_identities (portfolio_id, kind, value, contact_id)
            SELECT p_portfolio, u.kind, u.value, v_new FROM unnest(p_kinds, p_values) AS u(kind, value)
            ORDER BY u.kind, u.value ON CONFLICT DO NOTHING;
            GET DIAGNOSTICS v_count = ROW_COUNT;
            IF v_count = v_wanted THEN
                INSERT INTO contacts (contact_id, portfolio_id) VALUES (v_new, p_portfolio);
                RETURN v_new;
            END IF;
            DELETE FROM contact_identities i WHERE i.contact_id = v_new;  -- somebody was faster: theirs it is
            CONTINUE;
        END IF;

        -- An identity leaves a contact only when that one is merged, under its lock: what is unmerged now stays as read.
        SELECT count(*) INTO v_count FROM (
            SELECT 1 FROM contacts c WHERE c.contact_id = ANY (v_ids) AND c.merged_into IS NULL
            ORDER BY c.contact_id FOR UPDATE) locked;
        CONTINUE WHEN v_count < cardinality(v_ids);
        IF v_known < v_wanted THEN
            INSERT INTO contact_identities (portfolio_id, kind, value, contact_id)
            SELECT p_portfolio, u.kind, u.value, v_ids[1] FROM unnest(p_kinds, p_values) AS u(kind, value)
            ORDER BY u.kind, u.value ON CONFLICT DO NOTHING;
            GET DIAGNOSTICS v_count = ROW_COUNT;
            CONTINUE WHEN v_known + v_count < v_wanted;  -- another contact got one of them in between
        END IF;
        IF cardinality(v_ids) > 1 THEN
            PERFORM merge_contacts(v_ids[1], v_ids[2:]);
        END IF;
        RETURN v_ids[1];
    END LOOP;
    RAISE EXCEPTION 'the contact does not settle' USING ERRCODE = 'serialization_failure';
END $$;

-- Make one contact of several whose locks are held. Identities, conversations and any opt-out go to p_winner;
-- the others stay as aliases, suppressed like it, since frozen audiences name them.
CREATE OR REPLACE FUNCTION merge_contacts(p_winner bigint, p_losers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE contacts c SET merged_into = p_winner
    WHERE c.contact_id = ANY (p_losers) OR c.merged_into = ANY (p_losers);
    UPDATE contacts w SET consent_at = (SELECT max(c.consent_at) FROM contacts c
                                        WHERE c.contact_id = p_winner OR c.contact_id = ANY (p_losers))
    WHERE w.contact_id = p_winner;
    UPDATE contact_identities i SET contact_id = p_winner WHERE i.contact_id = ANY (p_losers);

    INSERT INTO suppressions AS x (contact_id, reason, source, since)
    SELECT a.contact_id, s.reason, s.source, s.since
    FROM contacts a CROSS JOIN (
        SELECT s.reason, s.source, s.since FROM suppressions s
        WHERE s.contact_id = p_winner OR s.contact_id = ANY (p_losers)
        ORDER BY s.reason = 'blocked' DESC, s.since DESC LIMIT 1) s
    WHERE a.contact_id = p_winner OR a.merged_into = p_winner
    ORDER BY a.contact_id
    ON CONFLICT (contact_id) DO UPDATE SET reason = excluded.reason, source = excluded.source, since = excluded.since;

    WITH gone AS (
        DELETE FROM conversations c WHERE c.contact_id = ANY (p_losers) RETURNING c.*
    )
    INSERT INTO conversations AS c (contact_id, phone_number_id, turn, version, last_inbound_at, window_closes_at)
    SELECT p_winner, g.phone_number_id, sum(g.turn), max(g.version) + 1, max(g.last_inbound_at), max(g.window_closes_at)
    FROM gone g GROUP BY g.phone_number_id ORDER BY g.phone_number_id
    ON CONFLICT (contact_id, phone_number_id) DO UPDATE SET
        turn = c.turn + excluded.turn, version = greatest(c.version, excluded.version) + 1,
        last_inbound_at = greatest(c.last_inbound_at, excluded.last_inbound_at),
        window_closes_at = greatest(c.window_closes_at, excluded.window_closes_at);
END $$;

-- Write down that a contact opted out or in at p_at, its own time; of two words the later one counts, in whichever
-- order they come. A block is nobody's to lift by a word. Answers whether it counted.
CREATE OR REPLACE FUNCTION set_consent(p_contact bigint, p_consent text, p_at timestamptz, p_source text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_at timestamptz := least(p_at, clock_timestamp());
    v_contact bigint;
BEGIN
    SELECT coalesce(c.merged_into, c.contact_id) INTO v_contact FROM contacts c WHERE c.contact_id = p_contact;
    UPDATE contacts c SET consent_at = v_at
    WHERE c.contact_id = v_contact AND (c.consent_at IS NULL OR c.consent_at <= v_at);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_consent = 'opted_out' THEN
        INSERT INTO suppressions AS x (contact_id, reason, source, since)
        SELECT a.contact_id, 'opted_out', p_source, v_at FROM contacts a
        WHERE a.contact_id = v_contact OR a.merged_into = v_contact ORDER BY a.contact_id
        ON CONFLICT (contact_id) DO UPDATE SET source = excluded.source, since = excluded.since
        WHERE x.reason = 'opted_out';
    ELSE
        DELETE FROM suppressions x USING contacts a
        WHERE (a.contact_id = v_contact OR a.merged_into = v_contact) AND x.contact_id = a.contact_id
          AND x.reason = 'opted_out' AND x.since <= v_at;
    END IF;
    RETURN true;
END $$;
