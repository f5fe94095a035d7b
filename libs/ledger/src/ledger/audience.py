"""A draft's audience: imported by COPY, one row a person, and read back page by page once it is frozen.

Invariant: an import is all or nothing, its memory does not grow with it, and each row it refused is told with its line.
"""

from collections.abc import AsyncIterator, Iterable
from datetime import datetime

from msgspec import Struct

from contracts.campaign import CampaignState
from ledger.campaigns import Refusal
from ledger.pool import Ledger

CHUNK_ROWS = 20_000
DUPLICATES_TOLD_MAX = 1_000


class AudienceRow(Struct, frozen=True, kw_only=True):
    """One recipient as it was read from a file; `address` is what is sent to, `folded` what is compared."""

    line: int
    address: str
    folded: str
    params: tuple[str, ...]


class Imported(Struct, frozen=True, kw_only=True):
    """What an import did; `duplicate_lines` names at most the first thousand."""

    added: int
    duplicates: int
    duplicate_lines: tuple[int, ...]


class RecipientLine(Struct, frozen=True, kw_only=True):
    """One recipient with all that became of it."""

    seq: int
    line: int
    address: str
    phone_number_id: str
    state: str
    reason: str | None
    code: int | None
    attempt: int
    tries: int
    wamid: str | None
    sent_at: datetime | None
    delivered_at: datetime | None
    read_at: datetime | None
    failed_at: datetime | None


async def add(ledger: Ledger, campaign_id: int, rows: AsyncIterator[list[AudienceRow]]) -> Imported:
    """Add rows to a draft's audience; a person who is there already stays as first imported.

    `rows` yields chunks; each is copied before the next is asked for. Raises `Refusal` unless the campaign is a draft.
    """
    added = 0
    duplicates = 0
    told: list[int] = []
    async with ledger.transaction("audience_add") as connection:
        await connection.execute("SET LOCAL statement_timeout = '10min'")
        await connection.execute("SET LOCAL idle_in_transaction_session_timeout = '60s'")
        state = await connection.fetchval(
            "SELECT state::text FROM campaigns WHERE campaign_id = $1 FOR SHARE", campaign_id
        )
        if state is None:
            raise Refusal(f"there is no campaign {campaign_id}")
        if state != CampaignState.DRAFT.value:
            raise Refusal(f"the campaign is {state}: its audience is frozen")
        await connection.execute(
            "CREATE TEMP TABLE incoming (line bigint, address text, folded text, params text[]) ON COMMIT DROP"
        )
        async for chunk in rows:
            await connection.copy_records_to_table("incoming", records=_records(chunk), timeout=120.0)
            duplicate_lines = await connection.fetch(
                """
                WITH fresh AS (
                    INSERT INTO audience_rows (campaign_id, folded, line, address, params)
                    SELECT DISTINCT ON (i.folded) $1, i.folded, i.line, i.address, i.params FROM incoming i
                    ORDER BY i.folded, i.line
                    ON CONFLICT DO NOTHING RETURNING line)
                SELECT i.line FROM incoming i WHERE NOT EXISTS (SELECT 1 FROM fresh f WHERE f.line = i.line)
                ORDER BY i.line
                """,
                campaign_id,
                timeout=120.0,
            )
            await connection.execute("TRUNCATE incoming")
            added += len(chunk) - len(duplicate_lines)
            duplicates += len(duplicate_lines)
            told += [row["line"] for row in duplicate_lines[: DUPLICATES_TOLD_MAX - len(told)]]
    return Imported(added=added, duplicates=duplicates, duplicate_lines=tuple(told))


def _records(chunk: Iterable[AudienceRow]) -> Iterable[tuple[int, str, str, list[str]]]:
    return ((row.line, row.address, row.folded, list(row.params)) for row in chunk)


async def page(
    ledger: Ledger, campaign_id: int, *, after_seq: int, limit: int = 5_000
) -> list[RecipientLine]:
    """Return recipients in the order of seq, those after `after_seq`."""
    rows = await ledger.rows(
        "audience_page",
        """
        SELECT s.seq, r.line, r.address, p.phone_number_id, s.state::text, s.reason, s.code, s.attempt, s.tries,
               (SELECT w.wamid FROM wamids w WHERE w.campaign_id = s.campaign_id AND w.seq = s.seq
                ORDER BY w.attempt DESC LIMIT 1) AS wamid,
               s.sent_at, s.delivered_at, s.read_at, s.failed_at
        FROM recipient_states s
        JOIN recipients r ON r.campaign_id = s.campaign_id AND r.seq = s.seq
        JOIN parts p ON p.campaign_id = s.campaign_id AND s.seq BETWEEN p.seq_from AND p.seq_to
        WHERE s.campaign_id = $1 AND s.seq > $2 ORDER BY s.seq LIMIT $3
        """,
        campaign_id,
        after_seq,
        limit,
    )
    return [RecipientLine(**dict(row)) for row in rows]


async def waiting(ledger: Ledger, campaign_id: int) -> int:
    """Return how many rows a draft's audience has."""
    count: int = await ledger.value(
        "audience_waiting", "SELECT count(*) FROM audience_rows WHERE campaign_id = $1", campaign_id
    )
    return count
