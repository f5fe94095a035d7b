-- Opt out the people of a portfolio who have these (folded, distinct) phone numbers, making contacts of those who are new.
-- Who must not be written to already is left as he is, so that the same list twice is the list once.
-- Answers how many opted out by this. Locks: contacts by id.
CREATE OR REPLACE FUNCTION opt_out_phones(p_portfolio text, p_folded text[], p_source text) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_ids bigint[];
    v_count integer;
BEGIN
    WITH fresh AS (
        INSERT INTO contact_identities (portfolio_id, kind, value, contact_id)
        SELECT p_portfolio, 'phone', u.folded, nextval('contact_ids')
        FROM (SELECT f.folded FROM unnest(p_folded) AS f(folded)
              WHERE NOT EXISTS (SELECT 1 FROM contact_identities i WHERE i.portfolio_id = p_portfolio
                                AND i.kind = 'phone' AND i.value = f.folded)
              ORDER BY f.folded) u
        ON CONFLICT DO NOTHING RETURNING contact_id
    )
    INSERT INTO contacts (contact_id, portfolio_id) SELECT f.contact_id, p_portfolio FROM fresh f;

    FOR v_try IN 1..20 LOOP
        SELECT array_agg(DISTINCT i.contact_id ORDER BY i.contact_id) INTO v_ids
        FROM unnest(p_folded) AS f(folded)
        CROSS JOIN LATERAL (SELECT i.contact_id FROM contact_identities i WHERE i.portfolio_id = p_portfolio
                            AND i.kind = 'phone' AND i.value = f.folded LIMIT 1) i;
        SELECT count(*) INTO v_count FROM (
            SELECT 1 FROM contacts c WHERE c.contact_id = ANY (v_ids) AND c.merged_into IS NULL
            ORDER BY c.contact_id FOR UPDATE) locked;
        CONTINUE WHEN v_count < cardinality(v_ids);  -- one was merged a moment ago: its identity has moved
        SELECT count(*) FILTER (WHERE set_consent(u.contact_id, 'opted_out', clock_timestamp(), p_source)) INTO v_count
        FROM (SELECT n.contact_id FROM unnest(v_ids) AS n(contact_id)
              WHERE NOT EXISTS (SELECT 1 FROM suppressions x WHERE x.contact_id = n.contact_id)
              ORDER BY n.contact_id OFFSET 0) u;
        RETURN v_count;
    END LOOP;
    RAISE EXCEPTION 'the contacts do not settle' USING ERRCODE = 'serialization_failure';
END $$;
