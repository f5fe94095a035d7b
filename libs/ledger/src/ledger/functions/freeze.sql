-- Freeze a draft's audience and let the campaign run: contacts for all, rows numbered from 1, a part for each number.
-- Answers the audience's size, or NULL when the campaign is not a draft any more (starting twice is one start).
CREATE OR REPLACE FUNCTION launch(p_shard smallint, p_campaign bigint) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_campaign campaigns%ROWTYPE;
    v_size bigint;
BEGIN
    SELECT * INTO v_campaign FROM campaigns c WHERE c.campaign_id = p_campaign FOR UPDATE;
    IF NOT FOUND OR v_campaign.state NOT IN ('draft', 'scheduled') THEN
        RETURN NULL;
    END IF;
    PERFORM ensure_partitions(p_campaign);

    WITH fresh AS (
        INSERT INTO contact_identities (portfolio_id, kind, value, contact_id)
        SELECT v_campaign.portfolio_id, 'phone', m.folded, nextval('contact_ids')
        FROM (SELECT a.folded FROM audience_rows a
              WHERE a.campaign_id = p_campaign AND NOT EXISTS (
                  SELECT 1 FROM contact_identities i WHERE i.portfolio_id = v_campaign.portfolio_id
                  AND i.kind = 'phone' AND i.value = a.folded)
              ORDER BY a.folded) m
        ON CONFLICT DO NOTHING RETURNING contact_id
    )
    INSERT INTO contacts (contact_id, portfolio_id) SELECT f.contact_id, v_campaign.portfolio_id FROM fresh f;

    INSERT INTO recipients (campaign_id, seq, contact_id, line, address, params)
    SELECT p_campaign, row_number() OVER (ORDER BY a.line), i.contact_id, a.line, a.address, a.params
    FROM audience_rows a JOIN contact_identities i
        ON i.portfolio_id = v_campaign.portfolio_id AND i.kind = 'phone' AND i.value = a.folded
    WHERE a.campaign_id = p_campaign;
    GET DIAGNOSTICS v_size = ROW_COUNT;
    INSERT INTO recipient_states (campaign_id, seq, state)
    SELECT p_campaign, g, 'pending' FROM generate_series(1, v_size) g;
    DELETE FROM audience_rows a WHERE a.campaign_id = p_campaign;

    -- Each number's share is in proportion to its setting, as it is now.
    INSERT INTO parts (campaign_id, part, phone_number_id, seq_from, seq_to, cursor)
    SELECT p_campaign, b.part, b.phone_number_id, b.low + 1, b.high, b.low
    FROM (SELECT w.part, w.phone_number_id,
                 (v_size * (sum(w.weight) OVER o - w.weight) / sum(w.weight) OVER ())::bigint AS low,
                 (v_size * sum(w.weight) OVER o / sum(w.weight) OVER ())::bigint AS high
          FROM (SELECT u.part, n.phone_number_id, greatest(n.setting_per_s, 1)::numeric AS weight
                FROM unnest(v_campaign.numbers) WITH ORDINALITY AS u(phone_number_id, part)
                JOIN numbers n ON n.phone_number_id = u.phone_number_id) w
          WINDOW o AS (ORDER BY w.part)) b;

    INSERT INTO campaign_counters (campaign_id, shard, state, n) VALUES (p_campaign, p_shard, 'pending', v_size);
    UPDATE campaigns c SET state = 'running', audience_size = v_size, launched_at = clock_timestamp(),
           valid_until = clock_timestamp() + make_interval(secs => c.valid_for_s)
    WHERE c.campaign_id = p_campaign;
    PERFORM pg_notify('sluice_work', p_campaign::text);
    RETURN v_size;
END $$;
