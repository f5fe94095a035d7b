-- Hold campaigns as they are until the end of the transaction, in the order of their ids.
-- Row locks alone would starve whoever wants to pause one: those who share a row don't queue behind him. The gate queues.
CREATE OR REPLACE FUNCTION share_campaigns(p_campaigns bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(campaign_gate(c.campaign_id))
    FROM (SELECT DISTINCT campaign_id FROM unnest(p_campaigns) AS u(campaign_id) ORDER BY campaign_id) c;
    PERFORM 1 FROM campaigns c WHERE c.campaign_id = ANY (p_campaigns) ORDER BY c.campaign_id FOR SHARE;
END $$;

-- The advisory lock that is taken before a campaign's row: shared by those whose change depends on its state, and alone
-- (pg_advisory_xact_lock) by those who change that state. Negative, so that it is no other lock's key.
CREATE OR REPLACE FUNCTION campaign_gate(p_campaign bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT -1 - p_campaign
$$;
