"""Who a person is: one contact a portfolio for all the identities that messages tie together.

Invariant: an identity belongs to exactly one contact that is not merged away; of two that merge the lower id stays.
"""

from collections.abc import Sequence

from ledger.pool import Ledger

NOBODY = 0
"""The contact of messages that say nothing of who sent them."""


async def resolve(ledger: Ledger, *, portfolio_id: str, identities: Sequence[tuple[str, str]]) -> int:
    """Find or create the contact of these (kind, value) pairs, merging contacts that turn out to be one person.

    Kinds are `phone` (folded), `bsuid` and `parent_bsuid`. Returns `NOBODY` for no identity at all.
    Of two merges that meet, one may end in `LedgerUnavailable`: ask again.
    """
    distinct = sorted(set(identities))
    contact_id = await ledger.value(
        "contact_resolve",
        "SELECT contact_of($1, $2::text[], $3::text[])",
        portfolio_id,
        [kind for kind, _ in distinct],
        [value for _, value in distinct],
    )
    return int(contact_id)


async def identities(ledger: Ledger, *, contact_id: int) -> list[tuple[str, str]]:
    """Return what is known of a contact, as (kind, value) in a fixed order."""
    rows = await ledger.rows(
        "contact_identities",
        "SELECT kind, value FROM contact_identities WHERE contact_id = $1 ORDER BY kind, value",
        contact_id,
    )
    return [(row["kind"], row["value"]) for row in rows]
