"""One recipient with everything that bears on what became of it and on what comes next.

Invariant: read-only and by key; a person who was merged with another since the freeze is found under either identity.
"""

from datetime import datetime

from msgspec import Struct

from contracts.campaign import Reason, RecipientState
from contracts.contact import folded_phone
from ledger.pool import Ledger


class Attempt(Struct, frozen=True, kw_only=True):
    """One POST of a recipient; `state` and `reason` are those in which the next claim found the row."""

    attempt: int
    state: RecipientState | None
    reason: Reason | None
    code: int | None
    proof: int
    started_at: datetime | None
    sent_at: datetime | None
    failed_at: datetime | None


class Throttle(Struct, frozen=True, kw_only=True):
    """What holds back everything within its scope until then."""

    scope: str
    until: datetime
    code: int | None


class Fate(Struct, frozen=True, kw_only=True):
    """A recipient's row, and what its next claim depends on."""

    now: datetime
    """Of the database, when this was read."""
    seq: int
    line: int
    phone_number_id: str
    state: RecipientState
    reason: Reason | None
    code: int | None
    attempt: int
    tries: int
    started_at: datetime | None
    sent_at: datetime | None
    failed_at: datetime | None
    delivered_at: datetime | None
    read_at: datetime | None
    rows_before: int
    """Never claimed rows of its number's part that come before it; 0 once its turn has come."""
    due_at: datetime | None
    unknown_since: datetime | None
    suppression: Reason | None
    setting_per_s: int
    is_owned: bool
    """Whether a sender holds the number's lease."""
    throttles: tuple[Throttle, ...]
    earlier: tuple[Attempt, ...]


_FATE = """
SELECT clock_timestamp() AS now, s.seq, r.line, p.phone_number_id, s.state::text, s.reason, s.code, s.attempt, s.tries,
       s.started_at, s.sent_at, s.failed_at, s.delivered_at, s.read_at,
       greatest(0, s.seq - p.cursor - 1) AS rows_before, q.due_at, u.since AS unknown_since, x.reason AS suppression,
       n.setting_per_s, coalesce(l.owner IS NOT NULL AND l.expires_at > clock_timestamp(), false) AS is_owned
FROM recipient_states s
JOIN recipients r ON r.campaign_id = s.campaign_id AND r.seq = s.seq
JOIN parts p ON p.campaign_id = s.campaign_id AND s.seq BETWEEN p.seq_from AND p.seq_to
JOIN numbers n ON n.phone_number_id = p.phone_number_id
LEFT JOIN number_leases l ON l.phone_number_id = p.phone_number_id
LEFT JOIN due q ON q.campaign_id = s.campaign_id AND q.seq = s.seq
LEFT JOIN unknown_rows u ON u.campaign_id = s.campaign_id AND u.seq = s.seq
LEFT JOIN suppressions x ON x.contact_id = r.contact_id
WHERE s.campaign_id = $1 AND s.seq = $2
"""
_THROTTLES = """
SELECT t.scope, t.until, t.code FROM campaigns c, numbers n, throttles t
WHERE c.campaign_id = $1 AND n.phone_number_id = $2 AND t.until > clock_timestamp() AND (
    t.scope = 'number' AND t.key = n.phone_number_id
    OR t.scope = 'waba' AND t.key = n.waba_id
    OR t.scope = 'portfolio' AND t.key = n.portfolio_id
    OR t.scope = 'template' AND t.key = n.waba_id || ':' || c.template_name || ':' || c.template_language
    OR t.scope = 'app' AND t.key = '*')
ORDER BY t.until DESC
"""
_EARLIER = """
SELECT attempt, state::text, reason, code, proof, started_at, sent_at, failed_at FROM earlier_attempts
WHERE campaign_id = $1 AND seq = $2 ORDER BY attempt
"""
_SEQS = """
WITH person AS (
    SELECT i.contact_id FROM campaigns c JOIN contact_identities i
        ON i.portfolio_id = c.portfolio_id AND i.kind = 'phone' AND i.value = $2
    WHERE c.campaign_id = $1)
SELECT r.seq, r.address FROM recipients r
WHERE r.campaign_id = $1 AND r.contact_id IN (
    SELECT contact_id FROM person UNION ALL
    SELECT c.contact_id FROM contacts c JOIN person ON c.merged_into = person.contact_id)
ORDER BY r.seq
"""


async def seq_of(ledger: Ledger, campaign_id: int, *, folded: str) -> int | None:
    """Return the row of the person who has this folded number; None when a launched campaign has none.

    A person who is in it twice, under numbers that turned out to be one person's, is found by the number asked for.
    """
    rows = await ledger.rows("recipient_by_phone", _SEQS, campaign_id, folded)
    if not rows:
        return None
    return next(
        (int(row["seq"]) for row in rows if folded_phone(row["address"]) == folded), int(rows[0]["seq"])
    )


async def find(ledger: Ledger, campaign_id: int, *, seq: int) -> Fate | None:
    """Return one recipient's fate; None when the campaign has no such row."""
    row = await ledger.row("recipient_fate", _FATE, campaign_id, seq)
    if row is None:
        return None
    fields = dict(row)
    throttles = await ledger.rows("recipient_throttles", _THROTTLES, campaign_id, row["phone_number_id"])
    return Fate(
        **{
            **fields,
            "state": RecipientState(row["state"]),
            "reason": _reason(row["reason"]),
            "suppression": _reason(row["suppression"]),
        },
        throttles=tuple(Throttle(**dict(t)) for t in throttles),
        earlier=await _earlier(ledger, campaign_id, seq),
    )


async def _earlier(ledger: Ledger, campaign_id: int, seq: int) -> tuple[Attempt, ...]:
    rows = await ledger.rows("recipient_earlier", _EARLIER, campaign_id, seq)
    return tuple(
        Attempt(
            attempt=row["attempt"],
            state=RecipientState(row["state"]) if row["state"] else None,
            reason=_reason(row["reason"]),
            code=row["code"],
            proof=row["proof"],
            started_at=row["started_at"],
            sent_at=row["sent_at"],
            failed_at=row["failed_at"],
        )
        for row in rows
    )


def _reason(text: str | None) -> Reason | None:
    return None if text is None else Reason(text)
