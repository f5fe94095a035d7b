-- Apply statuses, folded to one row an attempt: the earliest time of each status, and the winning failure's code.
-- retry_in_s: how long a failure that may pass waits before its next try; NULL for a final one.
-- For a given sequence of commands the row doesn't depend on the order, repetition or batching of these events:
-- ranks only rise, times are minima, the winning failure is the least (failed_at, code).
-- wamids: where a status names its message; learnt here when the POST's own answer was lost.
-- Locks: campaigns, recipients by key, due, counters. Answers the inputs that found no attempt (their positions, from 1).
CREATE OR REPLACE FUNCTION apply_statuses(p_shard smallint, p_campaigns bigint[], p_seqs bigint[], p_attempts integer[],
                                          p_numbers text[], p_sent timestamptz[], p_delivered timestamptz[],
                                          p_read timestamptz[], p_failed timestamptz[], p_codes integer[],
                                          p_retry_in_s double precision[], p_wamids text[])
RETURNS integer[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_ids bigint[];
    v_before recipient_state[];
    v_after recipient_state[];
    v_unresolved integer[];
BEGIN
    IF EXISTS (SELECT 1 FROM unnest(p_retry_in_s) r WHERE r IS NOT NULL) THEN
        PERFORM share_campaigns(p_campaigns);
    END IF;
    PERFORM 1 FROM recipient_states s JOIN unnest(p_campaigns, p_seqs) AS i(campaign_id, seq)
        ON s.campaign_id = i.campaign_id AND s.seq = i.seq
    ORDER BY s.campaign_id, s.seq FOR UPDATE OF s;

    WITH input AS MATERIALIZED (
        SELECT i.*, CASE WHEN read_at IS NOT NULL THEN 5 WHEN delivered_at IS NOT NULL THEN 4
                         WHEN failed_at IS NOT NULL THEN 3 WHEN sent_at IS NOT NULL THEN 2 ELSE 0 END AS rank
        FROM unnest(p_campaigns, p_seqs, p_attempts, p_numbers, p_sent, p_delivered, p_read, p_failed, p_codes, p_retry_in_s,
                    p_wamids) WITH ORDINALITY
            AS i(campaign_id, seq, attempt, number, sent_at, delivered_at, read_at, failed_at, code, retry_in_s, wamid,
                 position)
    ), matched AS MATERIALIZED (
        SELECT i.*, s.attempt = i.attempt AS is_current, s.proof AS old_proof FROM input i
        JOIN recipient_states s ON s.campaign_id = i.campaign_id AND s.seq = i.seq
        JOIN parts p ON p.campaign_id = i.campaign_id AND i.seq BETWEEN p.seq_from AND p.seq_to
        WHERE p.phone_number_id = i.number AND i.attempt BETWEEN 1 AND s.attempt_last
    ), learnt AS (
        INSERT INTO wamids (wamid, campaign_id, seq, attempt)
        SELECT m.wamid, m.campaign_id, m.seq, m.attempt FROM matched m
        WHERE m.wamid IS NOT NULL AND (m.old_proof = 0 OR NOT m.is_current)
        ORDER BY m.wamid ON CONFLICT DO NOTHING
    ), earlier AS (
        INSERT INTO earlier_attempts AS e (campaign_id, seq, attempt, proof, code, sent_at, failed_at)
        SELECT m.campaign_id, m.seq, m.attempt, m.rank, m.code, m.sent_at, m.failed_at
        FROM matched m WHERE NOT m.is_current
        ON CONFLICT (campaign_id, seq, attempt) DO UPDATE SET
            -- An attempt that may be current again: what it then comes back as.
            state = CASE WHEN e.state IS NULL OR NOT failure_wins(excluded.failed_at, excluded.code, e.failed_at, e.code)
                         THEN e.state
                         WHEN EXISTS (SELECT 1 FROM matched m WHERE m.campaign_id = e.campaign_id AND m.seq = e.seq
                                      AND m.attempt = e.attempt AND m.retry_in_s IS NOT NULL)
                         THEN 'pending'::recipient_state ELSE 'failed'::recipient_state END,
            proof = greatest(e.proof, excluded.proof),
            sent_at = least(e.sent_at, excluded.sent_at),
            code = CASE WHEN failure_wins(excluded.failed_at, excluded.code, e.failed_at, e.code)
                        THEN excluded.code ELSE e.code END,
            failed_at = least(e.failed_at, excluded.failed_at)
    ), per_row AS MATERIALIZED (
        SELECT m.campaign_id, m.seq, min(m.number) AS number, max(m.rank) FILTER (WHERE m.rank >= 4) AS best,
               min(m.delivered_at) AS delivered_at, min(m.read_at) AS read_at,
               max(m.rank) FILTER (WHERE m.is_current) AS rank,
               min(m.sent_at) FILTER (WHERE m.is_current) AS sent_at,
               min(m.failed_at) FILTER (WHERE m.is_current) AS failed_at,
               min(m.code) FILTER (WHERE m.is_current) AS code,
               min(m.retry_in_s) FILTER (WHERE m.is_current) AS retry_in_s
        FROM matched m GROUP BY m.campaign_id, m.seq
    ), weighed AS MATERIALIZED (
        SELECT r.*, s.state AS before, s.tries, s.reason, s.started_at,
               greatest(s.proof, r.rank) AS new_proof,
               greatest(s.best, r.best) AS new_best,
               failure_wins(r.failed_at, r.code, s.failed_at, s.code) AS fails, c.tries_max,
               c.state IN ('running', 'paused', 'completing') AS open
        FROM per_row r
        JOIN recipient_states s ON s.campaign_id = r.campaign_id AND s.seq = r.seq
        JOIN campaigns c ON c.campaign_id = r.campaign_id
    ), decided AS MATERIALIZED (
        SELECT w.*, w.retry_in_s IS NOT NULL AND w.tries < w.tries_max AND w.open AS again,
               (CASE WHEN w.new_best = 5 THEN 'read' WHEN w.new_best = 4 THEN 'delivered'
                     WHEN w.rank IS NULL THEN w.before::text
                     WHEN w.new_proof = 3 AND NOT w.fails THEN w.before::text
                     WHEN w.new_proof = 3 THEN CASE WHEN w.retry_in_s IS NOT NULL AND w.tries < w.tries_max AND w.open
                                                    THEN 'pending' ELSE 'failed' END
                     WHEN w.new_proof = 2 THEN 'sent' WHEN w.new_proof = 1 THEN 'accepted'
                     ELSE w.before::text END)::recipient_state AS after
        FROM weighed w
    ), moved AS (
        UPDATE recipient_states s SET
            state = d.after, proof = d.new_proof, best = d.new_best,
            sent_at = least(s.sent_at, d.sent_at),
            delivered_at = least(s.delivered_at, d.delivered_at),
            read_at = least(s.read_at, d.read_at),
            failed_at = CASE WHEN d.new_best > 0 THEN NULL WHEN d.fails THEN d.failed_at ELSE s.failed_at END,
            code = CASE WHEN d.new_best > 0 THEN NULL WHEN d.fails THEN d.code
                        WHEN d.new_proof IN (1, 2) THEN NULL ELSE s.code END,
            reason = CASE WHEN d.new_best > 0 OR d.after IN ('accepted', 'sent') THEN NULL
                          WHEN NOT d.fails OR d.new_proof <> 3 THEN s.reason
                          WHEN d.again THEN 'retrying'
                          WHEN d.retry_in_s IS NOT NULL AND d.tries >= d.tries_max THEN 'tries_spent'
                          ELSE 'refused' END
        FROM decided d WHERE s.campaign_id = d.campaign_id AND s.seq = d.seq
    ), found AS (
        DELETE FROM unknown_rows u USING decided d
        WHERE d.before = 'unknown' AND d.after <> 'unknown' AND u.campaign_id = d.campaign_id AND u.seq = d.seq
    ), not_due AS (
        DELETE FROM due q USING decided d
        WHERE d.before IN ('pending', 'deferred', 'unknown') AND d.after NOT IN ('pending', 'deferred', 'unknown')
          AND q.campaign_id = d.campaign_id AND q.seq = d.seq
    ), due_again AS (
        INSERT INTO due AS q (campaign_id, seq, phone_number_id, due_at)
        SELECT d.campaign_id, d.seq, d.number,
               clock_timestamp() + make_interval(secs => d.retry_in_s)
        FROM decided d WHERE d.after = 'pending' AND d.fails
        ORDER BY 1, 2 ON CONFLICT (campaign_id, seq) DO UPDATE SET due_at = excluded.due_at
    ), progress AS (
        INSERT INTO status_progress AS g (phone_number_id, started_at)
        SELECT d.number, max(d.started_at) FROM decided d
        WHERE d.rank IS NOT NULL AND d.started_at IS NOT NULL GROUP BY 1 ORDER BY 1
        ON CONFLICT (phone_number_id) DO UPDATE SET started_at = excluded.started_at
        WHERE g.started_at < excluded.started_at
    )
    SELECT array_agg(d.campaign_id), array_agg(d.before), array_agg(d.after),
           ARRAY(SELECT i.position::integer FROM input i EXCEPT SELECT m.position::integer FROM matched m ORDER BY 1)
    INTO v_ids, v_before, v_after, v_unresolved FROM decided d;

    IF v_ids IS NOT NULL THEN
        PERFORM add_counters(p_shard, v_ids, v_before, v_after);
    END IF;
    RETURN coalesce(v_unresolved, '{}');
END $$;

-- Join parked statuses whose wamid is known by now. Answers how many were joined.
CREATE OR REPLACE FUNCTION join_parked(p_shard smallint, p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v parked_join;
BEGIN
    WITH taken AS MATERIALIZED (
        SELECT p.*, w.campaign_id, w.seq, w.attempt FROM parked_statuses p JOIN wamids w ON w.wamid = p.wamid
        ORDER BY p.wamid LIMIT p_limit FOR UPDATE OF p SKIP LOCKED
    ), gone AS (
        DELETE FROM parked_statuses p USING taken t WHERE p.wamid = t.wamid
    )
    SELECT array_agg(t.campaign_id), array_agg(t.seq), array_agg(t.attempt), array_agg(t.phone_number_id),
           array_agg(t.sent_at), array_agg(t.delivered_at), array_agg(t.read_at), array_agg(t.failed_at),
           array_agg(t.code), array_agg(t.retry_in_s) INTO v FROM taken t;
    IF v.campaigns IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM apply_statuses(p_shard, v.campaigns, v.seqs, v.attempts, v.numbers, v.sent, v.delivered, v.read, v.failed,
                           v.codes, v.retry_in_s, NULL);
    RETURN cardinality(v.campaigns);
END $$;
