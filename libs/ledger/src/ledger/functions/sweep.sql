-- End the open rows of a campaign that was cancelled, or is past its validity, within (p_after, p_after + p_span].
-- What a row ends in names what it was: never sent, failed, or unknown. Rows being sent are left to their results.
-- Answers how many rows ended.
CREATE OR REPLACE FUNCTION end_rows(p_shard smallint, p_campaign bigint, p_after bigint, p_span bigint)
RETURNS integer LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_campaign campaigns%ROWTYPE;
    v_seqs bigint[];
    v_ids bigint[];
    v_before recipient_state[];
    v_after recipient_state[];
BEGIN
    PERFORM share_campaigns(ARRAY[p_campaign]);
    SELECT * INTO v_campaign FROM campaigns c WHERE c.campaign_id = p_campaign;
    IF NOT FOUND OR v_campaign.state <> 'cancelled'
       AND (v_campaign.state NOT IN ('running', 'paused', 'completing') OR v_campaign.valid_until > clock_timestamp()) THEN
        RETURN 0;
    END IF;
    -- Only what was locked here is ended: a row that becomes open a moment later would be judged by an old snapshot.
    v_seqs := ARRAY(SELECT s.seq FROM recipient_states s
                    WHERE s.campaign_id = p_campaign AND s.seq > p_after AND s.seq <= p_after + p_span
                      AND s.state IN ('pending', 'deferred', 'unknown')
                    ORDER BY s.seq FOR UPDATE);

    WITH decided AS MATERIALIZED (
        SELECT s.seq, s.state AS before,
               (CASE WHEN s.state = 'unknown' THEN 'given_up' WHEN s.proof = 3 THEN 'failed'
                     WHEN v_campaign.state = 'cancelled' THEN 'cancelled' ELSE 'expired' END)::recipient_state AS after
        FROM recipient_states s
        WHERE s.campaign_id = p_campaign AND s.seq = ANY (v_seqs)
          -- Past its validity, a lost answer still has its campaign's whole wait, unless it was to be sent again.
          AND (s.state <> 'unknown' OR v_campaign.state = 'cancelled'
               OR EXISTS (SELECT 1 FROM due q WHERE q.campaign_id = p_campaign AND q.seq = s.seq))
    ), moved AS (
        UPDATE recipient_states s SET state = d.after,
            reason = CASE d.after WHEN 'given_up' THEN 'silent' WHEN 'failed' THEN 'refused'
                                  WHEN 'cancelled' THEN 'campaign_cancelled' ELSE 'validity_over' END
        FROM decided d WHERE s.campaign_id = p_campaign AND s.seq = d.seq
    ), not_due AS (
        DELETE FROM due q USING decided d WHERE q.campaign_id = p_campaign AND q.seq = d.seq
    ), found AS (
        DELETE FROM unknown_rows u USING decided d WHERE u.campaign_id = p_campaign AND u.seq = d.seq
    )
    SELECT array_agg(p_campaign), array_agg(d.before), array_agg(d.after) INTO v_ids, v_before, v_after FROM decided d;
    IF v_ids IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM add_counters(p_shard, v_ids, v_before, v_after);
    RETURN cardinality(v_ids);
END $$;
