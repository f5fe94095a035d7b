-- Make sure that the partitions which hold a campaign exist: one for each span of 64 campaign ids.
CREATE OR REPLACE FUNCTION ensure_partitions(p_campaign bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_span constant bigint := 64;
    v_index bigint := p_campaign / v_span;
    v_table text;
    v_fill text;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['recipients', 'recipient_states'] LOOP
        CONTINUE WHEN to_regclass(format('%I', v_table || '_' || v_index)) IS NOT NULL;
        PERFORM pg_advisory_xact_lock(hashtext('sluice.partitions'));
        -- Asked of the catalogue: `to_regclass` may still remember that there was none before the lock was waited for.
        CONTINUE WHEN EXISTS (SELECT 1 FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                              WHERE i.inhparent = v_table::regclass AND c.relname = v_table || '_' || v_index);
        -- Half empty: a claim updates all rows of a page in one transaction, and each finds room beside itself (HOT).
        v_fill := CASE v_table WHEN 'recipient_states'
            THEN 'WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02)' ELSE '' END;
        -- Made apart and then attached: attaching doesn't block those who read and write the other partitions.
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS) %s',
                       v_table || '_' || v_index, v_table, v_fill);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
                       v_table, v_table || '_' || v_index, v_index * v_span, (v_index + 1) * v_span);
    END LOOP;
END $$;
