-- Settle attempts by what their POST came to, and forget the claim batches that are done with.
-- A result is one more event: it matches (row, attempt) whatever the epoch, and never lowers a state.
-- Kinds: accepted (wamid), refused (code: this message never), returned (surely not sent: the attempt is taken back and
-- the row falls due again; gives_back returns its try), unknown (nobody can say).
-- Locks: campaigns, recipients by key, due, counters. Answers how many results found their attempt.
CREATE OR REPLACE FUNCTION settle(p_shard smallint, p_campaigns bigint[], p_seqs bigint[], p_attempts integer[],
                                  p_kinds text[], p_wamids text[], p_codes integer[], p_reasons text[],
                                  p_due_in_s double precision[], p_gives_back boolean[], p_batches uuid[])
RETURNS integer LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_ids bigint[];
    v_before recipient_state[];
    v_after recipient_state[];
BEGIN
    PERFORM share_campaigns(p_campaigns);
    PERFORM 1 FROM recipient_states s JOIN unnest(p_campaigns, p_seqs) AS i(campaign_id, seq)
        ON s.campaign_id = i.campaign_id AND s.seq = i.seq
    ORDER BY s.campaign_id, s.seq FOR UPDATE OF s;

    -- A statement of its own: what is learnt here of an attempt counts below, where that attempt may be current again.
    INSERT INTO earlier_attempts AS e (campaign_id, seq, attempt, proof)
    SELECT i.campaign_id, i.seq, i.attempt, 1
    FROM unnest(p_campaigns, p_seqs, p_attempts, p_kinds) AS i(campaign_id, seq, attempt, kind)
    JOIN recipient_states s ON s.campaign_id = i.campaign_id AND s.seq = i.seq
    WHERE i.kind = 'accepted' AND i.attempt <> s.attempt AND i.attempt BETWEEN 1 AND s.attempt_last
    ON CONFLICT (campaign_id, seq, attempt) DO UPDATE SET proof = greatest(e.proof, excluded.proof);

    WITH input AS MATERIALIZED (
        SELECT * FROM unnest(p_campaigns, p_seqs, p_attempts, p_kinds, p_wamids, p_codes, p_reasons, p_due_in_s, p_gives_back)
            AS i(campaign_id, seq, attempt, kind, wamid, code, reason, due_in_s, gives_back)
    ), known AS (
        INSERT INTO wamids (wamid, campaign_id, seq, attempt)
        SELECT i.wamid, i.campaign_id, i.seq, i.attempt FROM input i WHERE i.kind = 'accepted'
        ORDER BY i.wamid ON CONFLICT DO NOTHING
    ), found_row AS MATERIALIZED (
        SELECT i.campaign_id, i.seq, i.kind, i.code AS in_code, i.reason AS in_reason, i.due_in_s,
               s.state AS before, s.attempt, s.tries - CASE WHEN i.gives_back THEN 1 ELSE 0 END AS tries, s.proof, s.best,
               s.code, s.reason, s.failed_at, c.state IN ('running', 'paused', 'completing') AS open, c.tries_max,
               c.state = 'cancelled' AS cancelled
        FROM input i
        JOIN recipient_states s ON s.campaign_id = i.campaign_id AND s.seq = i.seq AND s.attempt = i.attempt
        JOIN campaigns c ON c.campaign_id = i.campaign_id
    ), judged AS MATERIALIZED (
        -- What happens: 'accept', 'fail', 'take_back', 'lose', or NULL where a status has already said more.
        SELECT r.*, CASE
            WHEN r.kind = 'accepted' AND r.proof = 0 THEN 'accept'
            WHEN r.kind = 'refused' AND r.proof < 3 THEN 'fail'
            WHEN r.kind = 'returned' AND r.proof = 0 AND r.before IN ('sending', 'unknown')
                THEN CASE WHEN r.tries >= r.tries_max THEN 'fail' ELSE 'take_back' END
            WHEN r.kind = 'unknown' AND r.proof = 0 AND r.before = 'sending' THEN 'lose' END AS move
        FROM found_row r
    ), earlier AS MATERIALIZED (
        -- The attempt that is current again when one is taken back, with what is proven of it.
        SELECT j.campaign_id, j.seq, e.attempt, e.state, e.reason, e.proof, e.code, e.started_at, e.sent_at, e.failed_at
        FROM judged j CROSS JOIN LATERAL (
            SELECT * FROM earlier_attempts e
            WHERE e.campaign_id = j.campaign_id AND e.seq = j.seq AND e.attempt < j.attempt AND e.state IS NOT NULL
            ORDER BY e.attempt DESC LIMIT 1) e
        WHERE j.move = 'take_back'
    ), decided AS MATERIALIZED (
        SELECT j.*, e.attempt AS e_attempt, e.proof AS e_proof, e.code AS e_code, e.reason AS e_reason,
               e.started_at AS e_started_at, e.sent_at AS e_sent_at, e.failed_at AS e_failed_at,
               (CASE
                   WHEN j.best = 5 THEN 'read' WHEN j.best = 4 THEN 'delivered'
                   WHEN j.move = 'accept' THEN 'accepted'
                   WHEN j.move = 'fail' THEN 'failed'
                   WHEN j.move = 'lose' THEN 'unknown'
                   WHEN j.move IS NULL THEN j.before::text
                   -- Taken back: the row is what it was before the claim, or ends as that when its campaign is over.
                   WHEN e.proof = 2 THEN 'sent' WHEN e.proof = 1 THEN 'accepted'
                   WHEN e.state = 'failed' THEN 'failed'
                   WHEN e.proof = 3 THEN CASE WHEN j.open THEN 'pending' ELSE 'failed' END
                   WHEN e.state = 'unknown' THEN CASE WHEN j.open THEN 'unknown' ELSE 'given_up' END
                   WHEN j.open THEN 'pending'
                   WHEN j.cancelled THEN 'cancelled' ELSE 'expired'
               END)::recipient_state AS after
        FROM judged j LEFT JOIN earlier e ON e.campaign_id = j.campaign_id AND e.seq = j.seq
    ), moved AS (
        UPDATE recipient_states s SET
            state = d.after,
            attempt = CASE WHEN d.move = 'take_back' THEN coalesce(d.e_attempt, 0) ELSE s.attempt END,
            tries = CASE d.move WHEN 'take_back' THEN d.tries ELSE s.tries END,
            proof = CASE d.move WHEN 'accept' THEN 1 WHEN 'fail' THEN 3 WHEN 'take_back' THEN coalesce(d.e_proof, 0)
                                ELSE s.proof END,
            code = CASE WHEN d.after IN ('accepted', 'sent', 'delivered', 'read') THEN NULL
                        WHEN d.move = 'fail' THEN d.in_code
                        WHEN d.move = 'take_back' THEN CASE WHEN d.e_attempt IS NULL THEN d.in_code ELSE d.e_code END
                        ELSE s.code END,
            reason = CASE WHEN d.after IN ('accepted', 'sent', 'delivered', 'read') THEN NULL
                          WHEN d.move = 'fail' AND d.kind = 'returned' THEN 'tries_spent'
                          WHEN d.move = 'fail' THEN 'refused'
                          WHEN d.move = 'lose' THEN d.in_reason
                          WHEN d.move IS NULL THEN s.reason
                          WHEN d.after = 'failed' THEN 'refused'
                          WHEN d.after = 'given_up' THEN 'silent'
                          WHEN d.after = 'cancelled' THEN 'campaign_cancelled'
                          WHEN d.after = 'expired' THEN 'validity_over'
                          WHEN d.e_proof = 3 THEN 'retrying'
                          ELSE coalesce(d.e_reason, d.in_reason) END,
            started_at = CASE WHEN d.move = 'take_back' THEN d.e_started_at ELSE s.started_at END,
            sent_at = CASE WHEN d.move = 'take_back' THEN d.e_sent_at ELSE s.sent_at END,
            failed_at = CASE WHEN d.best > 0 THEN NULL WHEN d.move = 'fail' THEN v_now
                             WHEN d.move = 'take_back' THEN d.e_failed_at ELSE s.failed_at END
        FROM decided d WHERE s.campaign_id = d.campaign_id AND s.seq = d.seq
    ), restored AS (
        DELETE FROM earlier_attempts e USING decided d
        WHERE d.move = 'take_back' AND e.campaign_id = d.campaign_id AND e.seq = d.seq AND e.attempt = d.e_attempt
    ), lost AS (
        INSERT INTO unknown_rows (campaign_id, seq, phone_number_id, since)
        SELECT d.campaign_id, d.seq, part_number(d.campaign_id, d.seq), v_now FROM decided d
        WHERE d.move = 'lose' ORDER BY 1, 2 ON CONFLICT DO NOTHING
    ), found AS (
        DELETE FROM unknown_rows u USING decided d
        WHERE d.before = 'unknown' AND d.after <> 'unknown' AND u.campaign_id = d.campaign_id AND u.seq = d.seq
    ), not_due AS (
        DELETE FROM due q USING decided d
        WHERE d.before = 'unknown' AND d.after NOT IN ('pending', 'unknown')
          AND q.campaign_id = d.campaign_id AND q.seq = d.seq
    ), due_again AS (
        INSERT INTO due AS q (campaign_id, seq, phone_number_id, due_at)
        SELECT d.campaign_id, d.seq, part_number(d.campaign_id, d.seq), v_now + make_interval(secs => d.due_in_s)
        FROM decided d WHERE d.move = 'take_back' AND d.after IN ('pending', 'unknown')
        ORDER BY 1, 2 ON CONFLICT (campaign_id, seq) DO UPDATE SET due_at = excluded.due_at
    )
    SELECT array_agg(d.campaign_id), array_agg(d.before), array_agg(d.after) INTO v_ids, v_before, v_after
    FROM decided d;

    DELETE FROM claim_batches b WHERE b.name = ANY (p_batches);
    IF v_ids IS NOT NULL THEN
        PERFORM add_counters(p_shard, v_ids, v_before, v_after);
    END IF;
    RETURN coalesce(cardinality(v_ids), 0);
END $$;

-- Of two failures of one attempt the lesser counts: the earlier one, then the lesser code, no code behind all others.
CREATE OR REPLACE FUNCTION failure_wins(p_failed_at timestamptz, p_code integer, p_over_failed_at timestamptz,
                                        p_over_code integer)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_failed_at IS NULL THEN false WHEN p_over_failed_at IS NULL THEN true
                ELSE (p_failed_at, coalesce(p_code::bigint, 2147483648))
                     < (p_over_failed_at, coalesce(p_over_code::bigint, 2147483648)) END
$$;

-- The number whose part a row belongs to.
CREATE OR REPLACE FUNCTION part_number(p_campaign bigint, p_seq bigint) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT p.phone_number_id FROM parts p
    WHERE p.campaign_id = p_campaign AND p_seq BETWEEN p.seq_from AND p.seq_to
$$;
