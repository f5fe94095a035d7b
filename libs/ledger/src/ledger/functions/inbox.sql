-- The inbox: messages are seen once, handled one at a time and in order per contact, and told through the outbox.
-- Whatever is looked up here is looked up by key. A plan made while the tables are empty would read them whole, and a
-- session keeps its plans while they grow: hence `enable_seqscan = off` on the functions that are called from outside.
-- And generic plans, since for short arrays the planner would plan anew at each call, which takes longer than the rest.

-- Make sure that the partition of a week exists.
CREATE OR REPLACE FUNCTION ensure_inbox_week(p_week bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_table text := 'inbox_week_' || p_week;
BEGIN
    IF to_regclass(format('%I', v_table)) IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('sluice.inbox_weeks'));
    -- Asked of the catalogue: `to_regclass` may still remember that there was none before the lock was waited for.
    IF EXISTS (SELECT 1 FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
               WHERE i.inhparent = 'inbox'::regclass AND c.relname = v_table) THEN
        RETURN;
    END IF;
    -- Made apart and then attached: attaching doesn't block those who read and write the other weeks.
    EXECUTE format('CREATE TABLE %I (LIKE inbox INCLUDING DEFAULTS INCLUDING CONSTRAINTS) WITH (fillfactor = 85)', v_table);
    EXECUTE format('ALTER TABLE inbox ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', v_table, p_week, p_week + 1);
END $$;

-- Drop the weeks before p_week of which nothing waits any more; answers how many.
CREATE OR REPLACE FUNCTION drop_inbox_weeks(p_week bigint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_table text;
    v_week bigint;
    v_dropped integer := 0;
BEGIN
    FOR v_table IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                   WHERE i.inhparent = 'inbox'::regclass ORDER BY 1 LOOP
        v_week := substr(v_table, length('inbox_week_') + 1)::bigint;
        CONTINUE WHEN v_week >= p_week
            OR EXISTS (SELECT 1 FROM inbox_waiting w WHERE w.week = v_week)
            OR EXISTS (SELECT 1 FROM outbox o WHERE o.week = v_week);
        EXECUTE format('DROP TABLE %I', v_table);
        v_dropped := v_dropped + 1;
    END LOOP;
    RETURN v_dropped;
END $$;

-- Take messages in, at most 1,000, in the order in which they arrived. Kinds and values of a message's identities are
-- lines of one text. Answers for each 'seen', 'duplicate' or 'foreign_number'.
CREATE OR REPLACE FUNCTION inbox_see(
    p_hold_s double precision, p_numbers text[], p_wamids text[], p_keys text[], p_timestamps bigint[],
    p_received double precision[], p_positions integer[], p_closes bigint[], p_consents text[], p_kinds text[], p_values text[], p_records bytea[])
RETURNS text[] LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_due timestamptz := clock_timestamp() + make_interval(secs => p_hold_s);
    v_base bigint := nextval('inbox_calls') * 1000;
    v_week bigint;
    v_outcomes text[];
BEGIN
    FOR v_week IN SELECT DISTINCT t / 604800 FROM unnest(p_timestamps) AS t ORDER BY 1 LOOP
        PERFORM ensure_inbox_week(v_week);
    END LOOP;
    WITH arrived AS MATERIALIZED (
        SELECT u.*, u.at / 604800 AS week, v_base + u.n AS seen_id
        FROM unnest(p_numbers, p_wamids, p_keys, p_timestamps, p_received, p_positions, p_closes, p_consents, p_kinds, p_values,
                    p_records) WITH ORDINALITY AS u(number, wamid, key, at, received, position, closes, consent, kinds, vals, record, n)
    ), ours AS MATERIALIZED (
        SELECT a.* FROM arrived a JOIN numbers m ON m.phone_number_id = a.number
    ), fresh AS (
        INSERT INTO inbox (week, phone_number_id, wamid, seen_id, contact_key, timestamp_s, closes_at_s, consent,
                           identity_kinds, identity_values, record, seen_at)
        SELECT o.week, o.number, o.wamid, o.seen_id, o.key, o.at, o.closes, o.consent,
               string_to_array(o.kinds, E'\n'), string_to_array(o.vals, E'\n'), o.record, v_now
        FROM ours o ORDER BY o.week, o.number, o.wamid, o.n
        ON CONFLICT DO NOTHING RETURNING seen_id
    ), waits AS (
        INSERT INTO inbox_waiting (contact_key, timestamp_s, received_s, position, seen_id, due_at, week, phone_number_id, wamid)
        SELECT o.key, o.at, o.received, o.position, o.seen_id, v_due, o.week, o.number, o.wamid
        FROM fresh f JOIN ours o ON o.seen_id = f.seen_id
    ), lanes AS (
        INSERT INTO inbox_lanes AS l (contact_key, due_at)
        SELECT DISTINCT o.key, v_due FROM fresh f JOIN ours o ON o.seen_id = f.seen_id ORDER BY 1
        ON CONFLICT (contact_key) DO UPDATE SET due_at = least(l.due_at, excluded.due_at)
    )
    SELECT array_agg(CASE WHEN f.seen_id IS NOT NULL THEN 'seen' WHEN o.seen_id IS NOT NULL THEN 'duplicate'
                          ELSE 'foreign_number' END ORDER BY a.n) INTO v_outcomes
    FROM arrived a LEFT JOIN ours o ON o.seen_id = a.seen_id LEFT JOIN fresh f ON f.seen_id = a.seen_id;
    RETURN v_outcomes;
END $$;

-- Events of the outbox, with the records of their messages.
CREATE OR REPLACE FUNCTION outbox_events(p_ids bigint[], p_keys text[])
RETURNS TABLE (outbox_id bigint, contact_key text, contact_id bigint, turn bigint, closes_at_s bigint, timestamp_s bigint,
               consent text, record bytea) LANGUAGE sql STABLE AS $$
    SELECT o.outbox_id, o.contact_key, o.contact_id, o.turn, o.closes_at_s, i.timestamp_s, i.consent, i.record
    FROM unnest(p_keys, p_ids) AS u(key, id)
    -- The limits keep the planner at one look-up each.
    CROSS JOIN LATERAL (SELECT * FROM outbox o WHERE o.contact_key = u.key AND o.outbox_id = u.id LIMIT 1) o
    CROSS JOIN LATERAL (SELECT * FROM inbox i WHERE i.week = o.week AND i.phone_number_id = o.phone_number_id
                        AND i.wamid = o.wamid LIMIT 1) i
    ORDER BY o.outbox_id
$$;

-- Handle one waiting message: contact, turn, window, consent, `handled` and the outbox row, in this transaction.
-- Answers the outbox row's id, or NULL when the message could not be handled and was set aside with its fault.
CREATE OR REPLACE FUNCTION inbox_handle_one(p_wait inbox_waiting) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_message inbox%ROWTYPE;
    v_portfolio text;
    v_contact bigint;
    v_turn bigint;
    v_closes timestamptz;
    v_id bigint;
    v_fault text;
BEGIN
    SELECT * INTO v_message FROM inbox i
    WHERE i.week = p_wait.week AND i.phone_number_id = p_wait.phone_number_id AND i.wamid = p_wait.wamid;
    SELECT n.portfolio_id INTO v_portfolio FROM numbers n WHERE n.phone_number_id = p_wait.phone_number_id;
    DELETE FROM inbox_waiting w WHERE w.contact_key = p_wait.contact_key AND w.timestamp_s = p_wait.timestamp_s
        AND w.received_s = p_wait.received_s AND w.position = p_wait.position AND w.seen_id = p_wait.seen_id;
    IF v_portfolio IS NULL THEN  -- the number was taken away since
        v_fault := 'foreign_number';
    ELSE
        BEGIN
            v_contact := contact_of(v_portfolio, v_message.identity_kinds, v_message.identity_values);
            INSERT INTO conversations AS c (contact_id, phone_number_id, turn, version, last_inbound_at, window_closes_at)
            VALUES (v_contact, p_wait.phone_number_id, 1, 1,
                    CASE WHEN v_message.closes_at_s IS NOT NULL THEN to_timestamp(v_message.timestamp_s) END,
                    to_timestamp(v_message.closes_at_s))
            ON CONFLICT (contact_id, phone_number_id) DO UPDATE SET
                turn = c.turn + 1, version = c.version + 1,
                last_inbound_at = greatest(c.last_inbound_at, excluded.last_inbound_at),
                window_closes_at = greatest(c.window_closes_at, excluded.window_closes_at)
            RETURNING c.turn, c.window_closes_at INTO v_turn, v_closes;
            IF v_message.consent IS NOT NULL AND v_contact > 0 THEN
                PERFORM set_consent(v_contact, v_message.consent, to_timestamp(v_message.timestamp_s), 'message');
            END IF;
            INSERT INTO outbox (contact_key, taken_at, week, phone_number_id, wamid, contact_id, turn, closes_at_s)
            VALUES (p_wait.contact_key, now(), p_wait.week, p_wait.phone_number_id, p_wait.wamid, v_contact, v_turn,
                    CASE WHEN v_message.closes_at_s IS NOT NULL THEN extract(epoch FROM v_closes)::bigint END)
            RETURNING outbox_id INTO v_id;
        -- Only what this message itself brings about: locks, cancels and the like are tried again, all of them.
        EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
            v_fault := SQLSTATE;
        END;
    END IF;
    UPDATE inbox i SET handled_at = v_now, fault = v_fault,
        contact_id = CASE WHEN v_fault IS NULL THEN v_contact END, turn = CASE WHEN v_fault IS NULL THEN v_turn END
    WHERE i.week = p_wait.week AND i.phone_number_id = p_wait.phone_number_id AND i.wamid = p_wait.wamid;
    RETURN CASE WHEN v_fault IS NULL THEN v_id END;
END $$;

-- Handle what is due: up to p_per_lane messages of each of up to p_lanes contact keys, each lane in order.
-- When a lane has a message that is due, those that arrived within its hold and sort before it go first.
-- A lane whose events are still in the outbox waits for them, so that they are told in order.
-- Locks: lanes (skipped when held), contacts, conversations, suppressions. Answers the events, and a row without an
-- outbox_id for each message set aside.
CREATE OR REPLACE FUNCTION inbox_handle(p_lanes integer, p_per_lane integer)
RETURNS TABLE (outbox_id bigint, contact_key text, contact_id bigint, turn bigint, closes_at_s bigint, timestamp_s bigint,
               consent text, record bytea) LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_lanes text[];
    v_key text;
    v_wait inbox_waiting%ROWTYPE;
    v_id bigint;
    v_due timestamptz;
    v_ids bigint[] := '{}';
    v_keys text[] := '{}';
    v_faults integer := 0;
BEGIN
    v_lanes := ARRAY(
        SELECT l.contact_key FROM inbox_lanes l
        WHERE l.due_at <= v_now AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.contact_key = l.contact_key)
        ORDER BY l.due_at LIMIT p_lanes FOR UPDATE SKIP LOCKED);
    FOREACH v_key IN ARRAY v_lanes LOOP
        -- Once more, as of now: its last holder may have committed after this call's first look.
        CONTINUE WHEN EXISTS (SELECT 1 FROM outbox o WHERE o.contact_key = v_key);
        FOR v_wait IN SELECT w.* FROM inbox_waiting w WHERE w.contact_key = v_key
                      ORDER BY w.timestamp_s, w.received_s, w.position, w.seen_id LIMIT p_per_lane LOOP
            EXIT WHEN v_wait.due_at > v_now AND NOT EXISTS (
                SELECT 1 FROM inbox_waiting w WHERE w.contact_key = v_key AND w.due_at <= v_now);
            v_id := inbox_handle_one(v_wait);
            IF v_id IS NULL THEN
                v_faults := v_faults + 1;
            ELSE
                v_ids := v_ids || v_id;
                v_keys := v_keys || v_key;
            END IF;
        END LOOP;
        SELECT min(w.due_at) INTO v_due FROM inbox_waiting w WHERE w.contact_key = v_key;
        IF v_due IS NULL THEN
            DELETE FROM inbox_lanes l WHERE l.contact_key = v_key;
        ELSE  -- a lane with more of it goes behind the others
            UPDATE inbox_lanes l SET due_at = greatest(v_due, v_now) WHERE l.contact_key = v_key;
        END IF;
    END LOOP;
    RETURN QUERY SELECT * FROM outbox_events(v_ids, v_keys);
    RETURN QUERY SELECT NULL::bigint, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text,
                        NULL::bytea FROM generate_series(1, v_faults);
END $$;

-- Take over events that nobody has published for p_older_s: whole lanes, each in order.
CREATE OR REPLACE FUNCTION outbox_take(p_older_s double precision, p_lanes integer)
RETURNS TABLE (outbox_id bigint, contact_key text, contact_id bigint, turn bigint, closes_at_s bigint, timestamp_s bigint,
               consent text, record bytea) LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_before timestamptz := clock_timestamp() - make_interval(secs => p_older_s);
    v_ids bigint[];
    v_keys text[];
BEGIN
    WITH left_behind AS MATERIALIZED (
        SELECT o.contact_key, o.outbox_id FROM outbox o
        WHERE o.taken_at < v_before AND o.contact_key IN (
            SELECT DISTINCT p.contact_key FROM outbox p WHERE p.taken_at < v_before ORDER BY 1 LIMIT p_lanes)
        -- Waited for and not skipped, else two takers might share a lane.
        ORDER BY o.contact_key, o.outbox_id FOR UPDATE
    ), taken AS (
        UPDATE outbox o SET taken_at = now() FROM left_behind b
        WHERE o.contact_key = b.contact_key AND o.outbox_id = b.outbox_id
    )
    SELECT array_agg(b.outbox_id), array_agg(b.contact_key) INTO v_ids, v_keys FROM left_behind b;
    RETURN QUERY SELECT * FROM outbox_events(v_ids, v_keys);
END $$;

-- Forget events that are on the topic; answers whether any of their lanes has more to do now.
CREATE OR REPLACE FUNCTION outbox_published(p_keys text[], p_ids bigint[]) RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    DELETE FROM outbox o USING unnest(p_keys, p_ids) AS u(key, id)
    WHERE o.contact_key = u.key AND o.outbox_id = u.id;
    RETURN EXISTS (SELECT 1 FROM inbox_lanes l WHERE l.contact_key = ANY (p_keys) AND l.due_at <= clock_timestamp());
END $$;
