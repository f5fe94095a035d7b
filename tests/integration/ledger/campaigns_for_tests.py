"""A launched campaign for the ledger's tests, its claims and statuses, and what must hold of its rows at any moment."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import uuid4

from contracts.campaign import CampaignDefinition, OnUnknown, Reason, RecipientState, TemplateRef
from contracts.contact import folded_phone
from contracts.status import CampaignRow
from ledger import audience, campaigns, leases, numbers, recipients, states
from ledger.audience import AudienceRow
from ledger.pool import Ledger
from ledger.statuses import AttemptStatus

NUMBER = "100000000000001"
OUR_TIME_S = 2_000_000_000
"""Stands for any time of our own clock; the provider's times in tests are earlier than all of ours."""


async def add_number(ledger: Ledger, phone_number_id: str = NUMBER) -> None:
    await numbers.add(
        ledger, phone_number_id=phone_number_id, waba_id="200000000000001", portfolio_id="p1", display="",
        limit_per_s=80, setting_per_s=76, slots_count=4,
    )  # fmt: skip


async def launch_campaign(
    ledger: Ledger, *, size: int = 10, on_unknown: OnUnknown = OnUnknown.GIVE_UP, wait_s: int = 1, tries_max: int = 3,
    on_numbers: tuple[str, ...] = (NUMBER,),
) -> int:  # fmt: skip
    """Launch a campaign of `size` fictional people on numbers that are there; return its id."""
    campaign_id = await campaigns.create(
        ledger,
        CampaignDefinition(
            name="test", template=TemplateRef(name="hello", language="en", body=("name",)), numbers=on_numbers,
            on_unknown=on_unknown, unknown_wait_s=wait_s, tries_max=tries_max,
        ),
    )  # fmt: skip

    async def rows() -> AsyncIterator[list[AudienceRow]]:
        yield [
            AudienceRow(
                line=i, address=f"+447700900{i:03}", folded=folded_phone(f"+447700900{i:03}"), params=("A",)
            )
            for i in range(1, size + 1)
        ]

    await audience.add(ledger, campaign_id, rows())
    assert await campaigns.launch(ledger, campaign_id) == size
    return campaign_id


@asynccontextmanager
async def a_running_campaign(
    database_url: str,
    *,
    size: int = 10,
    on_unknown: OnUnknown = OnUnknown.GIVE_UP,
    wait_s: int = 1,
    tries_max: int = 3,
) -> AsyncIterator[tuple[Ledger, int, int]]:
    """Yield (ledger, campaign id, epoch) of a launched campaign on one number whose lease is held."""
    async with Ledger.open(database_url, shard=1) as ledger:
        await add_number(ledger)
        campaign_id = await launch_campaign(
            ledger, size=size, on_unknown=on_unknown, wait_s=wait_s, tries_max=tries_max
        )
        taken = await leases.take(ledger, phone_number_id=NUMBER, owner=uuid4(), lease_s=60, grace_s=2)
        assert taken is not None
        yield ledger, campaign_id, taken.epoch


async def claim(
    ledger: Ledger, campaign_id: int, epoch: int, limit: int, *, ends_in_s: float = 0.0
) -> recipients.Claim:
    """Claim for POSTs that take no time, unless said otherwise: what isn't settled at once may be reclaimed."""
    return await recipients.claim(
        ledger,
        phone_number_id=NUMBER,
        epoch=epoch,
        campaign_id=campaign_id,
        limit=limit,
        name=uuid4(),
        ends_in_s=ends_in_s,
    )


async def counters_equal_rows(ledger: Ledger, campaign_id: int) -> dict[RecipientState, int]:
    """Compare counters and rows in one snapshot; return the counts."""
    difference = await ledger.rows(
        "compare",
        """
        SELECT coalesce(c.state, r.state)::text, c.n, r.n FROM
          (SELECT state, sum(n) AS n FROM campaign_counters WHERE campaign_id = $1 GROUP BY 1 HAVING sum(n) <> 0) c
          FULL JOIN (SELECT state, count(*) AS n FROM recipient_states WHERE campaign_id = $1 GROUP BY 1) r
            ON r.state = c.state WHERE c.n IS DISTINCT FROM r.n
        """,
        campaign_id,
    )
    assert not difference
    return await campaigns.counts(ledger, campaign_id)


def status(campaign_id: int, seq: int, attempt: int = 1, **times: int) -> AttemptStatus:
    return AttemptStatus(row=CampaignRow(campaign_id, seq, attempt), phone_number_id=NUMBER, **times)


BROKEN_RULES = """
SELECT s.seq, s.state::text, x.rule
FROM recipient_states s
JOIN parts p ON p.campaign_id = s.campaign_id AND s.seq BETWEEN p.seq_from AND p.seq_to
LEFT JOIN due q ON q.campaign_id = s.campaign_id AND q.seq = s.seq
LEFT JOIN unknown_rows u ON u.campaign_id = s.campaign_id AND u.seq = s.seq
CROSS JOIN LATERAL (VALUES
    ('what ended, or is on its way, is not due',
     q.seq IS NULL OR s.state IN ('pending', 'deferred', 'unknown')),
    ('what is pending behind the cursor is due',
     s.state NOT IN ('pending', 'deferred') OR q.seq IS NOT NULL OR s.seq > p.cursor),
    ('what is due is behind the cursor', q.seq IS NULL OR s.seq <= p.cursor),
    ('what is due is due at its number', q.seq IS NULL OR q.phone_number_id = p.phone_number_id),
    ('what is unknown waits for a status, or is due', s.state <> 'unknown' OR u.seq IS NOT NULL OR q.seq IS NOT NULL),
    ('only what is unknown waits for a status', u.seq IS NULL OR s.state = 'unknown'),
    ('what is being sent is in a claim, so that it can be reclaimed',
     s.state <> 'sending' OR EXISTS (SELECT 1 FROM claim_batches b, unnest(b.seqs, b.attempts) AS k(seq, attempt)
                                     WHERE b.campaign_id = s.campaign_id AND k.seq = s.seq AND k.attempt = s.attempt
                                       AND b.reclaimed_at IS NULL)),
    ('no claim holds an attempt that never was',
     NOT EXISTS (SELECT 1 FROM claim_batches b, unnest(b.seqs, b.attempts) AS k(seq, attempt)
                 WHERE b.campaign_id = s.campaign_id AND k.seq = s.seq AND k.attempt > s.attempt_last)),
    ('what is not progress has a reason, what is progress has none',
     (s.reason IS NULL) = (s.state IN ('sending', 'accepted', 'sent', 'delivered', 'read')
                           OR s.state = 'pending' AND s.attempt_last = 0)),
    ('the best delivery of any attempt is the state',
     s.best = CASE s.state WHEN 'read' THEN 5 WHEN 'delivered' THEN 4 ELSE 0 END),
    ('a code belongs to what did not go on', s.code IS NULL OR s.reason IS NOT NULL)
) AS x(rule, holds)
WHERE s.campaign_id = $1 AND NOT x.holds
UNION ALL
SELECT NULL, coalesce(c.state, r.state)::text, 'counters equal rows: ' || coalesce(c.n, 0) || ' of ' || coalesce(r.n, 0)
FROM (SELECT state, sum(n) AS n FROM campaign_counters WHERE campaign_id = $1 GROUP BY 1 HAVING sum(n) <> 0) c
FULL JOIN (SELECT state, count(*) AS n FROM recipient_states WHERE campaign_id = $1 GROUP BY 1) r ON r.state = c.state
WHERE c.n IS DISTINCT FROM r.n
"""

_ROWS = f"""
SELECT s.*, q.seq IS NOT NULL AS is_due, ARRAY(
    SELECT e FROM earlier_attempts e WHERE e.campaign_id = s.campaign_id AND e.seq = s.seq) AS earlier,
    (SELECT array_agg(b::text) FROM ({BROKEN_RULES}) b) AS broken
FROM recipient_states s LEFT JOIN due q ON q.campaign_id = s.campaign_id AND q.seq = s.seq
WHERE s.campaign_id = $1 ORDER BY s.seq
"""


async def rows_as_they_are(ledger: Ledger, campaign_id: int) -> dict[int, states.Row]:
    """Return each row by its seq, read in one snapshot with what must hold of all of them, which is asserted."""
    found = await ledger.rows("rows", _ROWS, campaign_id)
    assert not found[0]["broken"], found[0]["broken"]
    return {
        row["seq"]: states.Row(
            state=RecipientState(row["state"]), attempt=row["attempt"], attempt_last=row["attempt_last"],
            tries=row["tries"], proof=row["proof"], best=row["best"], code=row["code"], reason=_reason(row["reason"]),
            sent_s=_seconds(row["sent_at"]), failed_s=_seconds(row["failed_at"]),
            delivered_s=_seconds(row["delivered_at"]), read_s=_seconds(row["read_at"]), is_due=row["is_due"],
            earlier={
                e["attempt"]: states.Earlier(
                    state=RecipientState(e["state"]) if e["state"] else None, reason=_reason(e["reason"]),
                    proof=e["proof"], code=e["code"], sent_s=_seconds(e["sent_at"]), failed_s=_seconds(e["failed_at"]),
                )
                for e in row["earlier"]
            },
        )
        for row in found
    }  # fmt: skip


def _seconds(at: datetime | None) -> int | None:
    return None if at is None else OUR_TIME_S if at.year > 2020 else int(at.timestamp())


def _reason(text: str | None) -> Reason | None:
    return None if text is None else Reason(text)
