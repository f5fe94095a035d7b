"""Leases: who may send from a number, and who leads the orchestrators.

Invariant: a number's epoch rises with each take, and only Postgres' clock says whether a lease is over.
"""

from collections.abc import Sequence
from uuid import UUID

from msgspec import Struct

from ledger.pool import Ledger


class Taken(Struct, frozen=True):
    """A lease that is ours now; `planned` when its last owner may have started a send just before."""

    epoch: int
    planned: bool


async def take(
    ledger: Ledger, *, phone_number_id: str, owner: UUID, lease_s: float, grace_s: float
) -> Taken | None:
    """Take a number's lease if it is free, its owner's already, or expired for longer than the grace; else None.

    An owner asks for what it doesn't know to hold: the answer to an earlier take, or to a release, may have been lost.
    """
    row = await ledger.row(
        "lease_take",
        """
        WITH free AS (
            SELECT l.phone_number_id,
                   l.owner IS NOT DISTINCT FROM $2
                       OR l.owner IS NULL AND l.expires_at > clock_timestamp() - interval '1 s' AS planned
            FROM number_leases l
            WHERE l.phone_number_id = $1
              AND (l.owner IS NULL OR l.owner = $2 OR l.expires_at + make_interval(secs => $4) < clock_timestamp())
            FOR UPDATE)
        UPDATE number_leases l
        SET owner = $2, epoch = l.epoch + 1, expires_at = clock_timestamp() + make_interval(secs => $3)
        FROM free f WHERE l.phone_number_id = f.phone_number_id RETURNING l.epoch, f.planned
        """,
        phone_number_id,
        owner,
        lease_s,
        grace_s,
    )
    return None if row is None else Taken(epoch=row["epoch"], planned=row["planned"])


async def renew(ledger: Ledger, *, owner: UUID, epochs: dict[str, int], lease_s: float) -> set[str]:
    """Prolong the leases held under these epochs; return the numbers that are still this owner's."""
    rows = await ledger.rows(
        "lease_renew",
        """
        WITH mine AS (
            SELECT l.phone_number_id FROM number_leases l
            JOIN unnest($2::text[], $3::bigint[]) AS i(phone_number_id, epoch)
                ON l.phone_number_id = i.phone_number_id AND l.epoch = i.epoch
            WHERE l.owner = $1 AND l.expires_at > clock_timestamp()
            ORDER BY l.phone_number_id FOR UPDATE OF l)
        UPDATE number_leases l SET expires_at = clock_timestamp() + make_interval(secs => $4)
        FROM mine m WHERE l.phone_number_id = m.phone_number_id RETURNING l.phone_number_id
        """,
        owner,
        list(epochs),
        list(epochs.values()),
        lease_s,
    )
    return {row["phone_number_id"] for row in rows}


async def release(ledger: Ledger, *, phone_number_id: str, epoch: int) -> bool:
    """Give a number back, so that the next owner need not wait for the lease to run out."""
    released = await ledger.run(
        "lease_release",
        """
        UPDATE number_leases SET owner = NULL, expires_at = clock_timestamp()
        WHERE phone_number_id = $1 AND epoch = $2
        """,
        phone_number_id,
        epoch,
    )
    return released > 0


async def lead(ledger: Ledger, *, role: str, owner: UUID, lease_s: float) -> bool:
    """Take or keep the lead of a role for `lease_s`; return whether it is ours."""
    held = await ledger.value(
        "lead",
        """
        INSERT INTO leaders AS l (role, owner, expires_at)
        VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
        ON CONFLICT (role) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
        WHERE l.owner = excluded.owner OR l.expires_at < clock_timestamp()
        RETURNING true
        """,
        role,
        owner,
        lease_s,
    )
    return bool(held)


async def resign(ledger: Ledger, *, role: str, owner: UUID) -> None:
    """Give the lead back at a planned stop."""
    await ledger.run(
        "resign", "UPDATE leaders SET expires_at = '-infinity' WHERE role = $1 AND owner = $2", role, owner
    )


async def owned_numbers(ledger: Ledger, *, slots: Sequence[int]) -> list[str]:
    """Return the numbers whose slot is among `slots`, in a fixed order."""
    rows = await ledger.rows(
        "numbers_of_slots",
        "SELECT phone_number_id FROM numbers WHERE slot = ANY ($1::int[]) ORDER BY phone_number_id",
        list(slots),
    )
    return [row["phone_number_id"] for row in rows]
