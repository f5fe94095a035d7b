-- Decide on rows whose answer was lost and for which no status came within their campaign's wait.
-- give_up: they end given up. resend: they fall due (and stay unknown until claimed), only if the aggregator is past
-- the end of message-statuses as noted when the wait was over, nothing from that number to that person is parked, and
-- a status of a later start of the same number was applied. What can't be resent within p_patience_s more is given up.
-- Answers (resent, given_up).
CREATE OR REPLACE FUNCTION reconcile(p_shard smallint, p_patience_s double precision, p_limit integer,
                                     OUT resent integer, OUT given_up integer)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_campaigns bigint[];
    v_seqs bigint[];
    v_ids bigint[];
    v_before recipient_state[];
    v_after recipient_state[];
BEGIN
    SELECT array_agg(u.campaign_id), array_agg(u.seq) INTO v_campaigns, v_seqs FROM (
        SELECT u.campaign_id, u.seq FROM unknown_rows u JOIN campaigns c ON c.campaign_id = u.campaign_id
        WHERE u.since + make_interval(secs => c.unknown_wait_s) <= v_now
          AND NOT EXISTS (SELECT 1 FROM due q WHERE q.campaign_id = u.campaign_id AND q.seq = u.seq)
        ORDER BY u.since LIMIT p_limit) u;
    resent := 0;
    given_up := 0;
    IF v_seqs IS NULL THEN
        RETURN;
    END IF;
    PERFORM share_campaigns(v_campaigns);
    PERFORM 1 FROM recipient_states s JOIN unnest(v_campaigns, v_seqs) AS i(campaign_id, seq)
        ON s.campaign_id = i.campaign_id AND s.seq = i.seq
    ORDER BY s.campaign_id, s.seq FOR UPDATE OF s;

    WITH overdue AS MATERIALIZED (
        SELECT s.campaign_id, s.seq, u.phone_number_id,
               c.on_unknown = 'resend' AND c.state IN ('running', 'paused', 'completing')
                   AND c.valid_until > v_now AND s.tries < c.tries_max AS wanted,
               n.reached_at IS NOT NULL AND g.started_at > s.started_at AND NOT EXISTS (
                   SELECT 1 FROM parked_statuses p JOIN contact_identities i
                       ON i.portfolio_id = c.portfolio_id AND i.kind = 'phone' AND i.value = p.recipient
                   WHERE p.phone_number_id = u.phone_number_id AND i.contact_id = r.contact_id) AS allowed,
               u.since + make_interval(secs => c.unknown_wait_s + p_patience_s) <= v_now AS late
        FROM unnest(v_campaigns, v_seqs) AS i(campaign_id, seq)
        JOIN recipient_states s ON s.campaign_id = i.campaign_id AND s.seq = i.seq AND s.state = 'unknown'
        JOIN unknown_rows u ON u.campaign_id = s.campaign_id AND u.seq = s.seq
        JOIN recipients r ON r.campaign_id = s.campaign_id AND r.seq = s.seq
        JOIN campaigns c ON c.campaign_id = s.campaign_id
        LEFT JOIN status_notes n ON n.note_id = u.note_id
        LEFT JOIN status_progress g ON g.phone_number_id = u.phone_number_id
    ), again AS (
        INSERT INTO due (campaign_id, seq, phone_number_id, due_at)
        SELECT o.campaign_id, o.seq, o.phone_number_id, v_now FROM overdue o WHERE o.wanted AND coalesce(o.allowed, false)
        ORDER BY 1, 2 ON CONFLICT DO NOTHING RETURNING 1
    ), ended AS MATERIALIZED (
        SELECT o.* FROM overdue o WHERE NOT o.wanted OR o.late AND NOT coalesce(o.allowed, false)
    ), moved AS (
        UPDATE recipient_states s SET state = 'given_up', reason = CASE WHEN e.wanted THEN 'no_later_status' ELSE 'silent' END
        FROM ended e WHERE s.campaign_id = e.campaign_id AND s.seq = e.seq
    ), forgotten AS (
        DELETE FROM unknown_rows u USING ended e WHERE u.campaign_id = e.campaign_id AND u.seq = e.seq
    )
    SELECT array_agg(e.campaign_id), array_agg('unknown'::recipient_state), array_agg('given_up'::recipient_state),
           (SELECT count(*) FROM again), count(e.seq) INTO v_ids, v_before, v_after, resent, given_up FROM ended e;
    IF v_ids IS NOT NULL THEN
        PERFORM add_counters(p_shard, v_ids, v_before, v_after);
    END IF;
END $$;

-- Note the end offsets of message-statuses for the rows whose wait is over and that have none yet.
CREATE OR REPLACE FUNCTION note_overdue(p_offsets jsonb) RETURNS integer LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_note bigint;
    v_count integer;
BEGIN
    INSERT INTO status_notes (offsets) VALUES (p_offsets) RETURNING note_id INTO v_note;
    -- A row that somebody holds is about to be something else than unknown; waiting for it here could be a deadlock.
    UPDATE unknown_rows u SET note_id = v_note FROM (
        SELECT w.campaign_id, w.seq FROM unknown_rows w JOIN campaigns c ON c.campaign_id = w.campaign_id
        WHERE w.note_id IS NULL AND w.since + make_interval(secs => c.unknown_wait_s) <= clock_timestamp()
        FOR UPDATE OF w SKIP LOCKED) w
    WHERE u.campaign_id = w.campaign_id AND u.seq = w.seq;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count = 0 THEN
        DELETE FROM status_notes n WHERE n.note_id = v_note;
    END IF;
    RETURN v_count;
END $$;
