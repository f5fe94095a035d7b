-- Claim up to p_limit rows of one campaign for one number: due rows first, then rows past the cursor.
-- p_ends_in_s from now every POST of the claim has ended, whatever became of it: what is still being sent is nobody's.
-- Fenced by the epoch of the number's lease. Locks: lease, campaign, part, recipients by key, due, counters.
-- Answers one row per claimed recipient with outcome 'claimed'; or a single row 'fenced', 'closed' (not running, halted,
-- throttled or out of validity) or 'empty' (nothing past the cursor, nothing due); or no row when all were suppressed.
CREATE OR REPLACE FUNCTION claim_rows(p_shard smallint, p_number text, p_epoch bigint, p_campaign bigint, p_limit integer,
                                      p_name uuid, p_ends_in_s double precision)
RETURNS TABLE (outcome text, seq bigint, attempt integer, tries smallint, address text, params text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_campaign campaigns%ROWTYPE;
    v_part parts%ROWTYPE;
    v_due bigint[];
    v_fresh bigint[] := '{}';
    v_keys bigint[];
    v_seqs bigint[];
    v_attempts integer[];
    v_tries smallint[];
    v_before recipient_state[];
    v_after recipient_state[];
BEGIN
    PERFORM 1 FROM number_leases l
    WHERE l.phone_number_id = p_number AND l.epoch = p_epoch AND l.expires_at > v_now FOR SHARE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'fenced'::text, NULL::bigint, NULL::integer, NULL::smallint, NULL::text, NULL::text[];
        RETURN;
    END IF;

    PERFORM share_campaigns(ARRAY[p_campaign]);
    SELECT * INTO v_campaign FROM campaigns c WHERE c.campaign_id = p_campaign;
    IF NOT FOUND OR v_campaign.state <> 'running' OR v_campaign.valid_until <= v_now
       OR is_halted(p_campaign, p_number)
       OR throttled_until(p_number, v_campaign.template_name, v_campaign.template_language) > v_now THEN
        RETURN QUERY SELECT 'closed'::text, NULL::bigint, NULL::integer, NULL::smallint, NULL::text, NULL::text[];
        RETURN;
    END IF;

    PERFORM 1 FROM parts p WHERE p.campaign_id = p_campaign AND p.phone_number_id = p_number
    ORDER BY p.part FOR UPDATE;
    SELECT * INTO v_part FROM parts p
    WHERE p.campaign_id = p_campaign AND p.phone_number_id = p_number AND p.cursor < p.seq_to
    ORDER BY p.part LIMIT 1;

    -- Keys are picked unlocked and checked again below, once their rows are locked.
    SELECT coalesce(array_agg(d.seq), '{}') INTO v_due FROM (
        SELECT q.seq FROM due q
        WHERE q.phone_number_id = p_number AND q.campaign_id = p_campaign AND q.due_at <= v_now
        ORDER BY q.due_at LIMIT p_limit) d;
    IF v_part.part IS NOT NULL AND cardinality(v_due) < p_limit THEN
        v_fresh := ARRAY(SELECT g FROM generate_series(
            v_part.cursor + 1, least(v_part.cursor + p_limit - cardinality(v_due), v_part.seq_to)) g);
    END IF;
    v_keys := v_due || v_fresh;
    IF cardinality(v_keys) = 0 THEN
        RETURN QUERY SELECT 'empty'::text, NULL::bigint, NULL::integer, NULL::smallint, NULL::text, NULL::text[];
        RETURN;
    END IF;

    PERFORM 1 FROM recipient_states s WHERE s.campaign_id = p_campaign AND s.seq = ANY (v_keys)
    ORDER BY s.seq FOR UPDATE;
    v_due := ARRAY(SELECT q.seq FROM due q
                   WHERE q.campaign_id = p_campaign AND q.seq = ANY (v_due) AND q.due_at <= v_now);

    -- Subqueries by key rather than joins: whatever the statistics say, no table is scanned for a claim.
    WITH candidate AS MATERIALIZED (
        SELECT s.seq, s.state AS before, s.attempt, s.attempt_last, s.tries, s.proof, s.code, s.reason,
               s.started_at, s.sent_at, s.failed_at,
               (SELECT x.reason FROM recipients r JOIN suppressions x ON x.contact_id = r.contact_id
                WHERE r.campaign_id = p_campaign AND r.seq = s.seq) AS suppression
        FROM recipient_states s
        WHERE s.campaign_id = p_campaign AND s.seq = ANY (v_keys)
          AND (s.seq = ANY (v_due) AND s.state IN ('pending', 'deferred', 'unknown')
               OR s.seq BETWEEN v_fresh[1] AND v_fresh[cardinality(v_fresh)] AND s.state = 'pending')
    ), decided AS MATERIALIZED (
        SELECT c.*, CASE WHEN c.suppression IS NULL THEN 'sending'
                         WHEN c.before = 'unknown' THEN 'given_up'
                         WHEN c.proof = 3 THEN 'failed'
                         ELSE 'suppressed' END::recipient_state AS after
        FROM candidate c
    ), kept AS (
        INSERT INTO earlier_attempts (campaign_id, seq, attempt, state, reason, proof, code, started_at, sent_at, failed_at)
        SELECT p_campaign, d.seq, d.attempt, d.before, d.reason, d.proof, d.code, d.started_at, d.sent_at, d.failed_at
        FROM decided d WHERE d.after = 'sending' AND d.attempt > 0
        ON CONFLICT (campaign_id, seq, attempt) DO UPDATE SET
            state = excluded.state, reason = excluded.reason, proof = excluded.proof, code = excluded.code,
            started_at = excluded.started_at, sent_at = excluded.sent_at, failed_at = excluded.failed_at
    ), moved AS (
        UPDATE recipient_states s SET
            state = d.after,
            attempt = CASE WHEN d.after = 'sending' THEN d.attempt_last + 1 ELSE d.attempt END,
            attempt_last = CASE WHEN d.after = 'sending' THEN d.attempt_last + 1 ELSE d.attempt_last END,
            tries = CASE WHEN d.after = 'sending' THEN d.tries + 1 ELSE d.tries END,
            proof = CASE WHEN d.after = 'sending' THEN 0 ELSE d.proof END,
            code = CASE WHEN d.after = 'sending' THEN NULL ELSE d.code END,
            reason = CASE WHEN d.after = 'sending' THEN NULL WHEN d.after = 'failed' THEN 'refused' ELSE d.suppression END,
            started_at = CASE WHEN d.after = 'sending' THEN v_now ELSE d.started_at END,
            sent_at = CASE WHEN d.after = 'sending' THEN NULL ELSE d.sent_at END,
            failed_at = CASE WHEN d.after = 'sending' THEN NULL ELSE d.failed_at END
        FROM decided d WHERE s.campaign_id = p_campaign AND s.seq = d.seq
        RETURNING s.seq, s.attempt, s.tries, d.before, d.after
    ), forgotten AS (
        DELETE FROM unknown_rows u USING decided d
        WHERE d.before = 'unknown' AND u.campaign_id = p_campaign AND u.seq = d.seq
    )
    SELECT array_agg(m.seq ORDER BY m.seq) FILTER (WHERE m.after = 'sending'),
           array_agg(m.attempt ORDER BY m.seq) FILTER (WHERE m.after = 'sending'),
           array_agg(m.tries ORDER BY m.seq) FILTER (WHERE m.after = 'sending'),
           array_agg(m.before ORDER BY m.seq), array_agg(m.after ORDER BY m.seq)
    INTO v_seqs, v_attempts, v_tries, v_before, v_after
    FROM moved m;

    IF cardinality(v_due) > 0 THEN
        DELETE FROM due q WHERE q.campaign_id = p_campaign AND q.seq = ANY (v_due);
    END IF;
    IF cardinality(v_fresh) > 0 THEN
        UPDATE parts p SET cursor = v_fresh[cardinality(v_fresh)]
        WHERE p.campaign_id = p_campaign AND p.part = v_part.part;
    END IF;
    IF v_seqs IS NOT NULL THEN
        INSERT INTO claim_batches (name, phone_number_id, epoch, campaign_id, claimed_at, ends_at, seqs, attempts)
        VALUES (p_name, p_number, p_epoch, p_campaign, v_now,
                clock_timestamp() + make_interval(secs => p_ends_in_s), v_seqs, v_attempts);
    END IF;
    IF v_before IS NOT NULL THEN
        PERFORM add_counters(p_shard, array_fill(p_campaign, ARRAY[cardinality(v_before)]), v_before, v_after);
    END IF;

    RETURN QUERY SELECT 'claimed'::text, k.seq, k.attempt, k.tries, r.address, r.params
    FROM unnest(v_seqs, v_attempts, v_tries) AS k(seq, attempt, tries)
    CROSS JOIN LATERAL (SELECT r.address, r.params FROM recipients r
                        WHERE r.campaign_id = p_campaign AND r.seq = k.seq OFFSET 0) r
    ORDER BY k.seq;
END $$;

-- Until when everything that a template sends from a number is held back, or NULL.
CREATE OR REPLACE FUNCTION throttled_until(p_number text, p_template text, p_language text) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT max(t.until) FROM numbers n JOIN throttles t ON
        t.scope = 'number' AND t.key = n.phone_number_id
        OR t.scope = 'waba' AND t.key = n.waba_id
        OR t.scope = 'portfolio' AND t.key = n.portfolio_id
        OR t.scope = 'template' AND t.key = n.waba_id || ':' || p_template || ':' || p_language
        OR t.scope = 'app' AND t.key = '*'
    WHERE n.phone_number_id = p_number
$$;
