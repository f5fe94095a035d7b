"""Halts: a campaign, a number, a WABA or everything stands still until somebody lifts it by name.

Invariant: while a halt stands no claim within its scope returns rows; nothing but `lift` ends one.
"""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from ledger.campaigns import Refusal
from ledger.pool import Ledger, Row

EVERYTHING = "*"
"""The key of a halt of scope `all`."""


class HaltScope(StrEnum):
    """What a halt stops."""

    CAMPAIGN = "campaign"
    NUMBER = "number"
    WABA = "waba"
    ALL = "all"


class Halt(Struct, frozen=True, kw_only=True):
    """A halt as it stands."""

    scope: HaltScope
    key: str
    actor: str
    reason: str
    since: datetime


class CampaignHalt(Struct, frozen=True, kw_only=True):
    """A halt that stops a campaign, on some of its numbers or on all."""

    halt: Halt
    numbers: tuple[str, ...]
    """Those of the campaign's numbers that it stops."""


_COLUMNS = "h.scope, h.key, h.actor, h.reason, h.since"
_ABSENT = {
    HaltScope.CAMPAIGN: "there is no campaign {}",
    HaltScope.NUMBER: "number {} is not connected",
    HaltScope.WABA: "no connected number belongs to WABA {}",
}


def _halt(row: Row) -> Halt:
    return Halt(
        scope=HaltScope(row["scope"]), key=row["key"], actor=row["actor"], reason=row["reason"], since=row["since"]
    )  # fmt: skip


async def place(ledger: Ledger, *, scope: HaltScope, key: str, actor: str, reason: str) -> tuple[Halt, bool]:
    """Halt; return the halt that stands, and whether it is new: an older one keeps its actor and its reason.

    Raises `Refusal` when there is no such campaign, number or WABA, so that a slip of the pen doesn't look like a halt.
    """
    row = await ledger.row(
        "halt_place",
        f"""
        WITH target AS (
            SELECT 1 FROM campaigns c WHERE $1 = 'campaign' AND c.campaign_id = $5
            UNION ALL SELECT 1 FROM numbers n WHERE $1 = 'number' AND n.phone_number_id = $2
            UNION ALL (SELECT 1 FROM numbers n WHERE $1 = 'waba' AND n.waba_id = $2 LIMIT 1)
            UNION ALL SELECT 1 WHERE $1 = 'all'
        ), placed AS (
            INSERT INTO halts AS h (scope, key, actor, reason) SELECT $1::text, $2::text, $3, $4 FROM target
            ON CONFLICT (scope, key) DO UPDATE SET scope = excluded.scope  -- changes nothing, and answers what stands
            RETURNING {_COLUMNS}, h.xmax = 0 AS is_new)
        SELECT h.*, pg_notify('sluice_work', '') IS NOT NULL AS told FROM placed h
        """,  # noqa: S608 - the columns are ours
        scope.value,
        key,
        actor,
        reason,
        int(key) if scope is HaltScope.CAMPAIGN else 0,
    )
    if row is None:
        raise Refusal(_ABSENT[scope].format(key))
    return _halt(row), row["is_new"]


async def lift(ledger: Ledger, *, scope: HaltScope, key: str) -> bool:
    """Lift the halt of this name; return whether there was one. Others that stop the same rows stay."""
    lifted = await ledger.value(
        "halt_lift",
        """
        WITH lifted AS (DELETE FROM halts WHERE scope = $1 AND key = $2 RETURNING scope)
        SELECT pg_notify('sluice_work', '') IS NOT NULL FROM lifted
        """,
        scope.value,
        key,
    )
    return lifted is not None


async def listed(ledger: Ledger) -> list[Halt]:
    """Return all halts, the oldest first."""
    rows = await ledger.rows("halts", f"SELECT {_COLUMNS} FROM halts h ORDER BY h.since, h.scope, h.key")  # noqa: S608
    return [_halt(row) for row in rows]


async def of_campaign(ledger: Ledger, campaign_id: int) -> list[CampaignHalt]:
    """Return the halts that stop a campaign on at least one of its numbers, the oldest first."""
    rows = await ledger.rows(
        "halts_of_campaign",
        f"""
        SELECT {_COLUMNS}, array_agg(n.phone_number_id ORDER BY n.phone_number_id) AS numbers
        FROM halts h, campaigns c JOIN numbers n ON n.phone_number_id = ANY (c.numbers)
        WHERE c.campaign_id = $1 AND (
            h.scope = 'all'
            OR h.scope = 'campaign' AND h.key = c.campaign_id::text
            OR h.scope = 'number' AND h.key = n.phone_number_id
            OR h.scope = 'waba' AND h.key = n.waba_id)
        GROUP BY {_COLUMNS} ORDER BY h.since, h.scope, h.key
        """,  # noqa: S608 - the columns are ours
        campaign_id,
    )
    return [CampaignHalt(halt=_halt(row), numbers=tuple(row["numbers"])) for row in rows]
