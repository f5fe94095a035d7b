"""Who must not be written to: opt-outs and blocks, checked whenever a recipient is claimed.

Invariant: an opt-out holds for a contact and for all contacts merged into it; a word from the person lifts no block.
"""

from msgspec import Struct

from contracts.conversation import Consent
from ledger.pool import Ledger


class Suppression(Struct, frozen=True, kw_only=True):
    """Why a contact must not be written to."""

    reason: str
    """`opted_out` or `blocked`."""
    source: str
    since_s: float
    """Unix seconds; of an opt-out by message the message's own time."""


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
