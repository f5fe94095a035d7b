-- Add the deltas of one change to a campaign's counters: the last thing that each change does, in key order.
CREATE OR REPLACE FUNCTION add_counters(p_shard smallint, p_campaigns bigint[], p_before recipient_state[],
                                        p_after recipient_state[])
RETURNS void LANGUAGE sql AS $$
    INSERT INTO campaign_counters AS c (campaign_id, shard, state, n)
    SELECT d.campaign_id, p_shard, d.state, sum(d.delta)
    FROM (SELECT campaign_id, before AS state, -1 AS delta
          FROM unnest(p_campaigns, p_before, p_after) AS u(campaign_id, before, after) WHERE before <> after
          UNION ALL
          SELECT campaign_id, after, 1
          FROM unnest(p_campaigns, p_before, p_after) AS u(campaign_id, before, after) WHERE before <> after) AS d
    GROUP BY d.campaign_id, d.state
    HAVING sum(d.delta) <> 0
    ORDER BY d.campaign_id, d.state
    ON CONFLICT (campaign_id, shard, state) DO UPDATE SET n = c.n + excluded.n
$$;
