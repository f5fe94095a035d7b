"""Campaigns: created, launched, moved between their states, and looked at.

Invariant: each move is guarded by the state it comes from; doing it twice is doing it once.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from contracts.campaign import MOVES, CampaignDefinition, CampaignState, RecipientState
from ledger.pool import Ledger, Row


class Refusal(Exception):
    """What was asked can't be done as things stand; the text says why, for the one who asked."""

    code: ClassVar[str] = "refused"


class TemplateUnsendable(Refusal):
    """Meta doesn't take the campaign's template as things stand, so every send would fail."""

    code = "template_unsendable"


class Campaign(Struct, frozen=True, kw_only=True):
    """A campaign as it stands."""

    campaign_id: int
    name: str
    portfolio_id: str
    state: CampaignState
    template_name: str
    template_language: str
    body_columns: tuple[str, ...]
    on_unknown: str
    unknown_wait_s: int
    valid_for_s: int
    tries_max: int
    numbers: tuple[str, ...]
    audience_size: int
    created_at: datetime
    launched_at: datetime | None
    valid_until: datetime | None
    completing_at: datetime | None
    ended_at: datetime | None
    pause_actor: str | None
    pause_reason: str | None
    pause_evidence: str | None
    pause_lifted_by: str | None


class NumberShare(Struct, frozen=True, kw_only=True):
    """A number's part of a campaign; `claimed_count` is how far its cursor has come."""

    phone_number_id: str
    rows_count: int
    claimed_count: int
    setting_per_s: int


_COLUMNS = ", ".join(Campaign.__struct_fields__)


def _campaign(row: Row) -> Campaign:
    fields = dict(row)
    fields["state"] = CampaignState(fields["state"])
    fields["body_columns"] = tuple(fields["body_columns"])
    fields["numbers"] = tuple(fields["numbers"])
    return Campaign(**fields)


async def create(ledger: Ledger, definition: CampaignDefinition) -> int:
    """Create a draft; return its id. Raises `Refusal` for unknown numbers, or numbers of several portfolios."""
    numbers = list(dict.fromkeys(definition.numbers))
    rows = await ledger.rows(
        "numbers_of_campaign",
        "SELECT phone_number_id, portfolio_id FROM numbers WHERE phone_number_id = ANY ($1::text[])",
        numbers,
    )
    known = {row["phone_number_id"] for row in rows}
    unknown = [number for number in numbers if number not in known]
    if unknown:
        raise Refusal(f"number {unknown[0]} is not connected: add it first")
    portfolios = {row["portfolio_id"] for row in rows}
    if len(portfolios) > 1:
        raise Refusal("the numbers of a campaign must belong to one portfolio")
    campaign_id: int = await ledger.value(
        "campaign_create",
        """
        INSERT INTO campaigns (name, portfolio_id, template_name, template_language, body_columns, on_unknown,
                               unknown_wait_s, valid_for_s, tries_max, numbers)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING campaign_id
        """,
        definition.name,
        portfolios.pop(),
        definition.template.name,
        definition.template.language,
        list(definition.template.body),
        definition.on_unknown.value,
        definition.unknown_wait_s,
        definition.valid_for_s,
        definition.tries_max,
        numbers,
    )
    await ledger.run("partitions", "SELECT ensure_partitions($1)", campaign_id)
    return campaign_id


async def find(ledger: Ledger, campaign_id: int) -> Campaign | None:
    """Return one campaign, or None."""
    row = await ledger.row(
        "campaign",
        f"SELECT {_COLUMNS} FROM campaigns WHERE campaign_id = $1",  # noqa: S608 - ours
        campaign_id,
    )
    return None if row is None else _campaign(row)


async def listed(ledger: Ledger, *, states: Sequence[CampaignState] = (), limit: int = 200) -> list[Campaign]:
    """Return campaigns, the newest first; of all states unless some are named."""
    rows = await ledger.rows(
        "campaigns",
        f"SELECT {_COLUMNS} FROM campaigns WHERE cardinality($1::text[]) = 0 OR state::text = ANY ($1)"  # noqa: S608
        " ORDER BY campaign_id DESC LIMIT $2",
        [state.value for state in states],
        limit,
    )
    return [_campaign(row) for row in rows]


async def cancelled_with_open_rows(ledger: Ledger, *, limit: int = 100) -> list[Campaign]:
    """Return cancelled campaigns of which some rows are still open."""
    rows = await ledger.rows(
        "campaigns_cancelled",
        f"""
        SELECT {_COLUMNS} FROM campaigns c WHERE c.state = 'cancelled' AND (
            SELECT coalesce(sum(n), 0) FROM campaign_counters k WHERE k.campaign_id = c.campaign_id
            AND k.state IN ('pending', 'deferred', 'unknown')) > 0
        ORDER BY campaign_id LIMIT $1
        """,  # noqa: S608 - the columns are ours
        limit,
    )
    return [_campaign(row) for row in rows]


async def launch(ledger: Ledger, campaign_id: int) -> int:
    """Freeze the audience and start; return its size. Launching what runs already changes nothing.

    Raises `Refusal` for an empty audience, a template that can't be sent, and a campaign that has ended. May take
    minutes for millions of rows.
    """
    campaign = await find(ledger, campaign_id)
    if campaign is None:
        raise Refusal(f"there is no campaign {campaign_id}")
    waiting = await ledger.value(
        "audience_waits", "SELECT EXISTS (SELECT 1 FROM audience_rows WHERE campaign_id = $1)", campaign_id
    )
    if campaign.state in (CampaignState.DRAFT, CampaignState.SCHEDULED):
        if not waiting:
            raise Refusal("the audience is empty: import recipients first")
        await _require_sendable(ledger, campaign_id, then="launch it then")
        async with ledger.transaction("launch") as connection:
            await connection.execute("SET LOCAL statement_timeout = '30min'")
            size = await connection.fetchval(
                "SELECT launch($1::int2, $2)", ledger.shard, campaign_id, timeout=1800.0
            )
        if size is not None:
            return int(size)
        campaign = await find(ledger, campaign_id)
        assert campaign is not None
    if campaign.state in (CampaignState.COMPLETED, CampaignState.CANCELLED):
        raise Refusal(f"the campaign is {campaign.state.value}: it can't be launched again")
    return campaign.audience_size


async def move(
    ledger: Ledger,
    campaign_id: int,
    to: CampaignState,
    *,
    actor: str,
    reason: str | None = None,
    evidence: str | None = None,
    lifted_by: str | None = None,
) -> bool:
    """Take a campaign to another state; return whether it changed (False: it was there already).

    Raises `Refusal` when there is no such campaign, or no legal move from where it is, and when it is to run with a
    template that can't be sent.
    """
    if to is CampaignState.RUNNING:
        await _require_sendable(ledger, campaign_id, then="resume it then")
    sources = [state.value for state, targets in MOVES.items() if to in targets]
    moved = await ledger.value(
        "campaign_move",
        """
        WITH gate AS MATERIALIZED (SELECT pg_advisory_xact_lock(campaign_gate($1))), moved AS (
            UPDATE campaigns SET state = $2::text::campaign_state,
                pause_actor = CASE WHEN $2 = 'paused' THEN $4 END, pause_reason = CASE WHEN $2 = 'paused' THEN $5 END,
                pause_evidence = CASE WHEN $2 = 'paused' THEN $6 END,
                pause_lifted_by = CASE WHEN $2 = 'paused' THEN $7 END,
                completing_at = CASE WHEN $2 = 'completing' THEN clock_timestamp() ELSE completing_at END,
                ended_at = CASE WHEN $2 IN ('cancelled', 'completed') THEN clock_timestamp() ELSE ended_at END
            FROM gate WHERE campaign_id = $1 AND state::text = ANY ($3::text[]) RETURNING campaign_id)
        SELECT pg_notify('sluice_work', campaign_id::text) IS NOT NULL FROM moved
        """,
        campaign_id,
        to.value,
        sources,
        actor,
        reason,
        evidence,
        lifted_by,
    )
    if moved:
        return True
    campaign = await find(ledger, campaign_id)
    if campaign is None:
        raise Refusal(f"there is no campaign {campaign_id}")
    if campaign.state is not to:
        raise Refusal(f"a campaign that is {campaign.state.value} can't become {to.value}")
    return False


async def _require_sendable(ledger: Ledger, campaign_id: int, *, then: str) -> None:
    """Raise `TemplateUnsendable` when Meta doesn't take the campaign's template on a WABA of its numbers."""
    found = await ledger.row(
        "template_unsendable", "SELECT * FROM unsendable_templates($1) LIMIT 1", campaign_id
    )
    if found is not None:
        raise TemplateUnsendable(
            f"template {found['name']} ({found['language']}) is {found['state']} on WABA {found['waba_id']} since"
            f" {found['changed_at']:%Y-%m-%d %H:%M:%S} UTC and can't be sent until Meta approves it: {then}"
        )


async def complete(ledger: Ledger, campaign_id: int, *, settle_s: float) -> CampaignState | None:
    """Take a completing campaign one step on; return its new state, or None when it stays.

    It is locked first, so that no row can come back meanwhile; then its counters are read. It completes when nothing
    is open and each accepted row has a status, or `settle_s` has passed; a row that came back makes it run again.
    """
    async with ledger.transaction("complete") as connection:
        await connection.execute("SELECT pg_advisory_xact_lock(campaign_gate($1))", campaign_id)
        row = await connection.fetchrow(
            "SELECT completing_at + make_interval(secs => $2) <= clock_timestamp() AS settled FROM campaigns"
            " WHERE campaign_id = $1 AND state = 'completing' FOR UPDATE",
            campaign_id,
            settle_s,
        )
        if row is None:
            return None
        counts = {
            r["state"]: r["n"]
            for r in await connection.fetch(
                "SELECT state::text, sum(n)::bigint AS n FROM campaign_counters WHERE campaign_id = $1 GROUP BY 1",
                campaign_id,
            )
        }
        if any(counts.get(state, 0) for state in ("pending", "deferred", "sending", "unknown")):
            to = CampaignState.RUNNING
        elif row["settled"] or not counts.get("accepted", 0):
            to = CampaignState.COMPLETED
        else:
            return None
        await connection.execute(
            "UPDATE campaigns SET state = $2::text::campaign_state,"
            " ended_at = CASE WHEN $2 = 'completed' THEN clock_timestamp() END WHERE campaign_id = $1",
            campaign_id,
            to.value,
        )
        await connection.execute("SELECT pg_notify('sluice_work', $1)", str(campaign_id))
    return to


async def counts(ledger: Ledger, campaign_id: int) -> dict[RecipientState, int]:
    """Return how many recipients are in each state; all states are there."""
    rows = await ledger.rows(
        "campaign_counts",
        "SELECT state::text, sum(n)::bigint AS n FROM campaign_counters WHERE campaign_id = $1 GROUP BY 1",
        campaign_id,
    )
    found = {row["state"]: int(row["n"]) for row in rows}
    return {state: found.get(state.value, 0) for state in RecipientState}


async def reasons(
    ledger: Ledger, campaign_id: int
) -> list[tuple[RecipientState, str | None, int | None, int]]:
    """Return (state, reason, code, count) of all rows: a scan, for reports and not for polling."""
    rows = await ledger.rows(
        "campaign_reasons",
        "SELECT state::text, reason, code, count(*) AS n FROM recipient_states WHERE campaign_id = $1"
        " GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        campaign_id,
    )
    return [(RecipientState(r["state"]), r["reason"], r["code"], r["n"]) for r in rows]


async def shares(ledger: Ledger, campaign_id: int) -> list[NumberShare]:
    """Return each number's part of a launched campaign."""
    rows = await ledger.rows(
        "campaign_shares",
        """
        SELECT p.phone_number_id, sum(p.seq_to - p.seq_from + 1)::bigint AS rows_count,
               sum(p.cursor - p.seq_from + 1)::bigint AS claimed_count, n.setting_per_s
        FROM parts p JOIN numbers n ON n.phone_number_id = p.phone_number_id
        WHERE p.campaign_id = $1 GROUP BY p.phone_number_id, n.setting_per_s ORDER BY min(p.part)
        """,
        campaign_id,
    )
    return [NumberShare(**dict(row)) for row in rows]
