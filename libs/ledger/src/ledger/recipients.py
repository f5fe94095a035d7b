"""Recipients' rows: claimed, settled, reclaimed, reconciled and ended, each by one guarded statement.

Invariant: a row changes only here and in `statuses`; locks first, counters last, one round trip a change.
"""

from collections.abc import Sequence
from uuid import UUID

from msgspec import Struct

from contracts.campaign import Reason
from ledger.pool import Ledger


class Claimed(Struct, frozen=True, kw_only=True):
    """One recipient, claimed for one POST."""

    seq: int
    attempt: int
    tries: int
    """The budget spent, this attempt included."""
    address: str
    params: tuple[str, ...]


class Claim(Struct, frozen=True, kw_only=True):
    """The answer to a claim: `claimed`, `fenced` (the lease is not ours), `closed` or `empty`."""

    outcome: str
    rows: tuple[Claimed, ...] = ()


class Settlement(Struct, frozen=True, kw_only=True):
    """What one POST came to, as the ledger takes it."""

    campaign_id: int
    seq: int
    attempt: int
    kind: str
    """`accepted`, `refused`, `returned` or `unknown`."""
    wamid: str | None = None
    code: int | None = None
    reason: Reason | None = None
    due_in_s: float | None = None
    gives_back: bool = False
    """Whether the try is given back, of a `returned` row."""


async def claim(
    ledger: Ledger,
    *,
    phone_number_id: str,
    epoch: int,
    campaign_id: int,
    limit: int,
    name: UUID,
    ends_in_s: float,
) -> Claim:
    """Claim up to `limit` rows under the lease's epoch; `name` identifies the claim if its answer is lost.

    `ends_in_s`: by then every POST of these rows has ended, and rows without a result may be reclaimed.
    """
    rows = await ledger.rows(
        "claim",
        "SELECT outcome, seq, attempt, tries, address, params FROM claim_rows($1::int2, $2, $3, $4, $5, $6, $7)",
        ledger.shard,
        phone_number_id,
        epoch,
        campaign_id,
        limit,
        name,
        ends_in_s,
    )
    if rows and rows[0]["outcome"] != "claimed":
        return Claim(outcome=rows[0]["outcome"])
    return Claim(
        outcome="claimed",
        rows=tuple(
            Claimed(
                seq=r["seq"],
                attempt=r["attempt"],
                tries=r["tries"],
                address=r["address"],
                params=tuple(r["params"]),
            )
            for r in rows
        ),
    )


async def claimed_under(ledger: Ledger, *, name: UUID) -> list[tuple[int, int, int]]:
    """Return (campaign id, seq, attempt) of the rows of a claim whose answer was lost; empty when it never happened."""
    row = await ledger.row(
        "claim_lookup", "SELECT campaign_id, seqs, attempts FROM claim_batches WHERE name = $1", name
    )
    if row is None:
        return []
    return [(row["campaign_id"], seq, n) for seq, n in zip(row["seqs"], row["attempts"], strict=True)]


async def settle(
    ledger: Ledger, settlements: Sequence[Settlement], *, finished_claims: Sequence[UUID]
) -> int:
    """Write results and forget the claims whose last row is among them; return how many found their attempt."""
    found: int = await ledger.value(
        "settle",
        "SELECT settle($1::int2, $2::int8[], $3::int8[], $4::int4[], $5::text[], $6::text[], $7::int4[], $8::text[],"
        " $9::float8[], $10::bool[], $11::uuid[])",
        ledger.shard,
        [s.campaign_id for s in settlements],
        [s.seq for s in settlements],
        [s.attempt for s in settlements],
        [s.kind for s in settlements],
        [s.wamid for s in settlements],
        [s.code for s in settlements],
        [s.reason.value if s.reason else None for s in settlements],
        [s.due_in_s for s in settlements],
        [s.gives_back for s in settlements],
        list(finished_claims),
    )
    return found


async def reclaim(ledger: Ledger, *, batches_max: int = 100) -> int:
    """Make the rows of claims that outlived every POST they may have started unknown; return how many."""
    moved: int = await ledger.value("reclaim", "SELECT reclaim_rows($1::int2, $2)", ledger.shard, batches_max)
    return moved


async def reconcile(ledger: Ledger, *, patience_s: float, rows_max: int = 1000) -> tuple[int, int]:
    """Apply each campaign's policy to rows that stayed silent; return how many fall due again and were given up."""
    row = await ledger.row(
        "reconcile",
        "SELECT resent, given_up FROM reconcile($1::int2, $2, $3)",
        ledger.shard,
        patience_s,
        rows_max,
    )
    assert row is not None
    return row["resent"], row["given_up"]


async def end_rows(ledger: Ledger, *, campaign_id: int, after_seq: int, span: int) -> int:
    """End open rows within (after_seq, after_seq + span] of a cancelled or expired campaign; return how many."""
    ended: int = await ledger.value(
        "end_rows", "SELECT end_rows($1::int2, $2, $3, $4)", ledger.shard, campaign_id, after_seq, span
    )
    return ended
