-- Whether a halt stops this campaign on this number. Not `LANGUAGE sql`, as only here the plan is kept from claim to claim.
CREATE OR REPLACE FUNCTION is_halted(p_campaign bigint, p_number text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM halts h WHERE
            h.scope = 'all'
            OR h.scope = 'campaign' AND h.key = p_campaign::text
            OR h.scope = 'number' AND h.key = p_number
            OR h.scope = 'waba' AND h.key = (SELECT n.waba_id FROM numbers n WHERE n.phone_number_id = p_number));
END $$;
