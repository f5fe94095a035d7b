"""Who must not be written to: opt-outs and blocks, checked whenever a recipient is claimed.

Invariant: an opt-out holds for a contact and for all contacts merged into it; a word from the person lifts no block.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from contracts.conversation import Consent
from ledger.pool import Ledger

PHONES_MAX = 1_000


class Suppression(Struct, frozen=True, kw_only=True):
    """Why a contact must not be written to."""

    reason: str
    """`opted_out` or `blocked`."""
    source: str
    since_s: float
    """Unix seconds; of an opt-out by message the message's own time."""


class SuppressedContact(Struct, frozen=True, kw_only=True):
    """A contact that must not be written to, with what it is known by."""

    contact_id: int
    phones: tuple[str, ...]
    """Folded: digits under which all national variants are one."""
    user_ids: tuple[str, ...]
    reason: str
    source: str
    since: datetime

    def __repr__(self) -> str:  # a person's data never reaches a log by accident
        return f"SuppressedContact(contact_id={self.contact_id})"


async def set_consent(ledger: Ledger, *, contact_id: int, consent: Consent, at_s: float, source: str) -> bool:
    """Write down an opt-out or opt-in of the moment `at_s`; False when a later word of the contact stands."""
    counted = await ledger.value(
        "consent_set",
        "SELECT set_consent($1, $2, to_timestamp($3), $4)",
        contact_id,
        consent.value,
        at_s,
        source,
    )
    return bool(counted)


async def find(ledger: Ledger, *, contact_id: int) -> Suppression | None:
    """Return what holds a contact back; None when it may be written to."""
    row = await ledger.row(
        "suppression",
        "SELECT reason, source, extract(epoch FROM since)::float8 AS since_s FROM suppressions WHERE contact_id = $1",
        contact_id,
    )
    return None if row is None else Suppression(**dict(row))


async def opt_out_phones(ledger: Ledger, *, portfolio_id: str, folded: Sequence[str], source: str) -> int:
    """Opt out the people of a portfolio who have these folded numbers, at most a thousand; new ones become contacts.

    Returns how many that is news of; of the others the older word stands. They opt out together or not at all.
    """
    assert len(folded) <= PHONES_MAX
    opted_out: int = await ledger.value(
        "opt_out_phones",
        "SELECT opt_out_phones($1, $2::text[], $3)",
        portfolio_id,
        sorted(set(folded)),
        source,
    )
    return opted_out


async def page(
    ledger: Ledger, portfolio_id: str, *, after_contact_id: int, limit: int = 5_000
) -> list[SuppressedContact]:
    """Return the contacts of a portfolio who must not be written to, by id, those after `after_contact_id`."""
    rows = await ledger.rows(
        "suppressions_page",
        """
        SELECT x.contact_id, x.reason, x.source, x.since,
               ARRAY(SELECT i.value FROM contact_identities i WHERE i.contact_id = x.contact_id AND i.kind = 'phone'
                     ORDER BY i.value) AS phones,
               ARRAY(SELECT i.value FROM contact_identities i WHERE i.contact_id = x.contact_id AND i.kind = 'bsuid'
                     ORDER BY i.value) AS user_ids
        FROM suppressions x JOIN contacts c ON c.contact_id = x.contact_id
        WHERE c.portfolio_id = $1 AND c.merged_into IS NULL AND x.contact_id > $2 ORDER BY x.contact_id LIMIT $3
        """,
        portfolio_id,
        after_contact_id,
        limit,
    )
    return [
        SuppressedContact(
            contact_id=row["contact_id"], phones=tuple(row["phones"]), user_ids=tuple(row["user_ids"]),
            reason=row["reason"], source=row["source"], since=row["since"],
        )
        for row in rows
    ]  # fmt: skip
