"""Statuses become row states: one bulk change a batch, and the early ones parked until their wamid is known.

Invariant: applying the same statuses again, in any order and any batches, changes nothing more.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from contracts.status import CampaignRow
from ledger.pool import Ledger


class AttemptStatus(Struct, frozen=True, kw_only=True):
    """All that is known of one attempt from a batch: the earliest time of each status, Unix seconds."""

    row: CampaignRow
    phone_number_id: str
    wamid: str | None = None
    """Lets later statuses without callback data find the row, should the POST's answer have been lost."""
    sent_s: int | None = None
    delivered_s: int | None = None
    read_s: int | None = None
    failed_s: int | None = None
    code: int | None = None
    """Of the earliest failure; of several at once the least."""
    retry_in_s: float | None = None
    """When a failure that may pass is tried again; None for a final one."""


class ParkedStatus(Struct, frozen=True, kw_only=True):
    """Statuses whose message isn't known yet; `recipient` is a folded phone number, or empty."""

    wamid: str
    phone_number_id: str
    recipient: str
    sent_s: int | None = None
    delivered_s: int | None = None
    read_s: int | None = None
    failed_s: int | None = None
    code: int | None = None
    retry_in_s: float | None = None


def _at(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(min(max(seconds, 0), 253_402_300_799), UTC)


async def apply(ledger: Ledger, statuses: Sequence[AttemptStatus]) -> list[int]:
    """Apply statuses, one element an attempt; return the positions (from 0) of those that found no attempt.

    An attempt isn't found when its row, number or attempt doesn't exist: not an error, it is `unresolved`.
    """
    assert len({(s.row, s.phone_number_id) for s in statuses}) == len(statuses), (
        "fold to one element an attempt first"
    )
    positions: list[int] = await ledger.value(
        "apply_statuses",
        "SELECT apply_statuses($1::int2, $2::int8[], $3::int8[], $4::int4[], $5::text[], $6::timestamptz[],"
        " $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::int4[], $11::float8[], $12::text[])",
        ledger.shard,
        [s.row.campaign_id for s in statuses],
        [s.row.seq for s in statuses],
        [s.row.attempt for s in statuses],
        [s.phone_number_id for s in statuses],
        [_at(s.sent_s) for s in statuses],
        [_at(s.delivered_s) for s in statuses],
        [_at(s.read_s) for s in statuses],
        [_at(s.failed_s) for s in statuses],
        [s.code for s in statuses],
        [s.retry_in_s for s in statuses],
        [s.wamid for s in statuses],
    )
    return [position - 1 for position in positions]


async def rows_of_wamids(ledger: Ledger, wamids: Sequence[str]) -> dict[str, CampaignRow]:
    """Return the attempts that these wamids name, as far as they are known."""
    rows = await ledger.rows(
        "rows_of_wamids",
        "SELECT wamid, campaign_id, seq, attempt FROM wamids WHERE wamid = ANY ($1::text[])",
        list(wamids),
    )
    return {row["wamid"]: CampaignRow(row["campaign_id"], row["seq"], row["attempt"]) for row in rows}


async def park(ledger: Ledger, statuses: Sequence[ParkedStatus], *, parked_max: int) -> int:
    """Keep statuses until their wamid is known, merged per wamid; return how many were refused for lack of room."""
    ordered = sorted(statuses, key=lambda s: s.wamid)
    written = await ledger.run(
        "park",
        """
        INSERT INTO parked_statuses AS p (wamid, phone_number_id, recipient, sent_at, delivered_at, read_at, failed_at,
                                          code, retry_in_s)
        SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[],
                             $6::timestamptz[], $7::timestamptz[], $8::int4[], $9::float8[])
        WHERE (SELECT count(*) FROM (SELECT 1 FROM parked_statuses LIMIT $10) x) < $10
        ON CONFLICT (wamid) DO UPDATE SET
            sent_at = least(p.sent_at, excluded.sent_at), delivered_at = least(p.delivered_at, excluded.delivered_at),
            read_at = least(p.read_at, excluded.read_at),
            code = CASE WHEN failure_wins(excluded.failed_at, excluded.code, p.failed_at, p.code)
                        THEN excluded.code ELSE p.code END,
            retry_in_s = CASE WHEN failure_wins(excluded.failed_at, excluded.code, p.failed_at, p.code)
                              THEN excluded.retry_in_s ELSE p.retry_in_s END,
            failed_at = least(p.failed_at, excluded.failed_at)
        """,
        [s.wamid for s in ordered],
        [s.phone_number_id for s in ordered],
        [s.recipient for s in ordered],
        [_at(s.sent_s) for s in ordered],
        [_at(s.delivered_s) for s in ordered],
        [_at(s.read_s) for s in ordered],
        [_at(s.failed_s) for s in ordered],
        [s.code for s in ordered],
        [s.retry_in_s for s in ordered],
        parked_max,
    )
    return len(ordered) - written


async def join_parked(ledger: Ledger, *, rows_max: int = 1000) -> int:
    """Apply parked statuses whose wamid is known by now; return how many."""
    joined: int = await ledger.value(
        "join_parked", "SELECT join_parked($1::int2, $2)", ledger.shard, rows_max
    )
    return joined


async def forget_parked(ledger: Ledger, *, older_than_s: float) -> int:
    """Drop parked statuses that nobody claimed, such as another application's; return how many."""
    return await ledger.run(
        "forget_parked",
        "DELETE FROM parked_statuses WHERE parked_at < clock_timestamp() - make_interval(secs => $1)",
        older_than_s,
    )


async def note_overdue(ledger: Ledger, *, end_offsets: dict[int, int]) -> int:
    """Note the end of message-statuses for rows whose wait is over; return how many rows the note is for."""
    noted: int = await ledger.value(
        "note_overdue", "SELECT note_overdue($1::jsonb)", msgspec.json.encode(end_offsets).decode()
    )
    return noted


async def reach_notes(ledger: Ledger, *, committed: dict[int, int]) -> int:
    """Mark the notes that the aggregator's committed offsets have passed; return how many."""
    return await ledger.run(
        "reach_notes",
        """
        UPDATE status_notes n SET reached_at = clock_timestamp()
        WHERE n.reached_at IS NULL AND NOT EXISTS (
            SELECT 1 FROM jsonb_each_text(n.offsets) o
            WHERE coalesce(($1::jsonb ->> o.key)::bigint, 0) < o.value::bigint)
        """,
        msgspec.json.encode(committed).decode(),
    )


async def overdue_waits(ledger: Ledger) -> bool:
    """Return whether a row that may be resent has waited long enough and has no note yet."""
    waits: bool = await ledger.value(
        "overdue_waits",
        """
        SELECT EXISTS (SELECT 1 FROM unknown_rows u JOIN campaigns c ON c.campaign_id = u.campaign_id
                       WHERE u.note_id IS NULL AND c.on_unknown = 'resend'
                         AND u.since + make_interval(secs => c.unknown_wait_s) <= clock_timestamp())
        """,
    )
    return waits


async def notes_wait(ledger: Ledger) -> bool:
    """Return whether a note waits for the aggregator to pass it."""
    waits: bool = await ledger.value(
        "notes_wait", "SELECT EXISTS (SELECT 1 FROM status_notes WHERE reached_at IS NULL)"
    )
    return waits
