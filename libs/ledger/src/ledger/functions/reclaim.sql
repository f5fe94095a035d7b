-- Rows whose claim outlived every POST it may have started are nobody's: they become unknown, never pending.
-- Looks only at claim batches that are past their end, and keeps their names for an hour: the answer to such a claim may
-- have been lost, and its owner, who finds it only now, knows that no row of it was sent.
-- Answers how many rows became unknown.
CREATE OR REPLACE FUNCTION reclaim_rows(p_shard smallint, p_limit integer)
RETURNS integer LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_names uuid[];
    v_ids bigint[];
    v_before recipient_state[];
    v_after recipient_state[];
BEGIN
    v_names := ARRAY(SELECT b.name FROM claim_batches b
                     WHERE b.ends_at < clock_timestamp() AND b.reclaimed_at IS NULL
                     ORDER BY b.ends_at LIMIT p_limit);
    IF cardinality(v_names) = 0 THEN
        RETURN 0;
    END IF;
    PERFORM 1 FROM recipient_states s
    JOIN (SELECT b.campaign_id, unnest(b.seqs) AS seq FROM claim_batches b WHERE b.name = ANY (v_names)) i
        ON s.campaign_id = i.campaign_id AND s.seq = i.seq
    ORDER BY s.campaign_id, s.seq FOR UPDATE OF s;

    WITH claimed AS MATERIALIZED (
        SELECT b.campaign_id, b.phone_number_id, k.seq, k.attempt
        FROM claim_batches b, unnest(b.seqs, b.attempts) AS k(seq, attempt) WHERE b.name = ANY (v_names)
    ), moved AS (
        UPDATE recipient_states s SET state = 'unknown', reason = 'reclaimed'
        FROM claimed c
        WHERE s.campaign_id = c.campaign_id AND s.seq = c.seq AND s.attempt = c.attempt AND s.state = 'sending'
        RETURNING s.campaign_id, s.seq, c.phone_number_id
    ), lost AS (
        INSERT INTO unknown_rows (campaign_id, seq, phone_number_id, since)
        SELECT m.campaign_id, m.seq, m.phone_number_id, clock_timestamp() FROM moved m
        ORDER BY 1, 2 ON CONFLICT DO NOTHING
    )
    SELECT array_agg(m.campaign_id), array_agg('sending'::recipient_state), array_agg('unknown'::recipient_state)
    INTO v_ids, v_before, v_after FROM moved m;

    UPDATE claim_batches b SET reclaimed_at = clock_timestamp() WHERE b.name = ANY (v_names);
    DELETE FROM claim_batches b WHERE b.reclaimed_at < clock_timestamp() - interval '1 h';
    IF v_ids IS NOT NULL THEN
        PERFORM add_counters(p_shard, v_ids, v_before, v_after);
    END IF;
    RETURN coalesce(cardinality(v_ids), 0);
END $$;
