-- Templates that keep a campaign from being sent: those of its numbers' WABAs that Meta doesn't take now. One that Meta
-- has told nothing of keeps nobody: its state is learnt from events alone.
CREATE OR REPLACE FUNCTION unsendable_templates(p_campaign bigint) RETURNS SETOF templates LANGUAGE sql STABLE AS $$
    SELECT t.* FROM campaigns c, templates t
    WHERE c.campaign_id = p_campaign AND t.name = c.template_name AND t.language = c.template_language
      AND t.state <> 'APPROVED'
      AND t.waba_id IN (SELECT n.waba_id FROM numbers n WHERE n.phone_number_id = ANY (c.numbers))
    ORDER BY t.waba_id
$$;

-- Pause the running campaigns whose template Meta doesn't take: those of one template, or (with NULL) of any.
-- Answers the ids of those that this call paused. Locks: campaigns by id, each behind its gate.
CREATE OR REPLACE FUNCTION pause_unsendable(p_name text, p_language text) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    v_template templates%ROWTYPE;
    v_campaign bigint;
    v_paused bigint[] := '{}';
BEGIN
    FOR v_campaign IN
        SELECT c.campaign_id FROM campaigns c
        WHERE c.state = 'running' AND (p_name IS NULL OR c.template_name = p_name AND c.template_language = p_language)
          AND EXISTS (SELECT 1 FROM unsendable_templates(c.campaign_id))
        ORDER BY c.campaign_id
    LOOP
        PERFORM pg_advisory_xact_lock(campaign_gate(v_campaign));
        SELECT * INTO v_template FROM unsendable_templates(v_campaign) LIMIT 1;
        CONTINUE WHEN NOT FOUND;  -- approved while we waited
        UPDATE campaigns c SET state = 'paused', pause_actor = 'template',
            pause_reason = format('Meta says that template %s (%s) is %s on WABA %s',
                                  v_template.name, v_template.language, v_template.state, v_template.waba_id),
            pause_evidence = format('message_template_status_update: %s at %s UTC, reason %s', v_template.state,
                                    to_char(v_template.changed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'),
                                    coalesce(v_template.reason, 'not told')),
            pause_lifted_by = 'resume, once Meta has approved the template again: it does not resume by itself'
        WHERE c.campaign_id = v_campaign AND c.state = 'running';
        CONTINUE WHEN NOT FOUND;  -- somebody else moved it
        PERFORM pg_notify('sluice_work', v_campaign::text);
        v_paused := v_paused || v_campaign;
    END LOOP;
    RETURN v_paused;
END $$;

-- Note what Meta says of a template, unless later news is known, and pause the running campaigns that it stops. Of two
-- events of the same second the one that comes later counts. Answers whether it was news, and who was paused by it.
-- Locks: template, campaigns by id.
CREATE OR REPLACE FUNCTION note_template(p_waba text, p_name text, p_language text, p_state text, p_reason text,
                                         p_changed_s double precision)
RETURNS TABLE (is_news boolean, paused bigint[]) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO templates AS t (waba_id, name, language, state, reason, changed_at)
    VALUES (p_waba, p_name, p_language, p_state, p_reason, to_timestamp(p_changed_s))
    ON CONFLICT (waba_id, name, language) DO UPDATE
        SET state = excluded.state, reason = excluded.reason, changed_at = excluded.changed_at
        WHERE t.changed_at <= excluded.changed_at
          AND (t.state, t.reason, t.changed_at) IS DISTINCT FROM (excluded.state, excluded.reason, excluded.changed_at);
    is_news := FOUND;
    paused := pause_unsendable(p_name, p_language);
    RETURN NEXT;
END $$;
