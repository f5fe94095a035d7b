"""Business phone numbers: their limit (Meta's), our setting, their slot, and what holds them back.

Invariant: a setting never exceeds its limit; a slot is chosen once, when the number is connected.
"""

from collections.abc import Sequence

from msgspec import Struct

from contracts.outcome import Scope
from contracts.partition import slot_order
from ledger.pool import Ledger

SETTING_SHARE = 0.95
"""Our setting's share of Meta's limit, by default: room for network jitter and inbound bursts."""


class Number(Struct, frozen=True, kw_only=True):
    """A connected number."""

    phone_number_id: str
    waba_id: str
    portfolio_id: str
    display: str
    limit_per_s: int
    setting_per_s: int
    slot: int


class PartWork(Struct, frozen=True, kw_only=True):
    """A running campaign that this number has a part in."""

    campaign_id: int
    template_name: str
    template_language: str
    fresh_count: int
    """Rows past the cursor."""
    due_in_s: float | None
    """Seconds until the next due row; None when there is none, at most 0 when it may be claimed."""
    throttled_s: float
    """Seconds until it may be sent again; 0 when nothing holds it back."""


class Work(Struct, frozen=True, kw_only=True):
    """What a number's owner needs to know, read a few times a second."""

    phone_number_id: str
    setting_per_s: int
    parts: tuple[PartWork, ...]


_COLUMNS = "phone_number_id, waba_id, portfolio_id, display, limit_per_s, setting_per_s, slot"


async def add(
    ledger: Ledger,
    *,
    phone_number_id: str,
    waba_id: str,
    portfolio_id: str,
    display: str,
    limit_per_s: int,
    setting_per_s: int | None,
    slots_count: int,
) -> Number:
    """Connect a number, or change what is known of it; its slot stays. Returns it as it is then.

    The slot of a new one is the least used, in bit-reversed order, so that load spreads over the senders.
    """
    setting = setting_per_s if setting_per_s is not None else max(1, int(limit_per_s * SETTING_SHARE))
    async with ledger.transaction("number_add") as connection:
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext('sluice.slots'))")
        used = await connection.fetch("SELECT slot, count(*) AS n FROM numbers GROUP BY slot")
        load = {row["slot"]: row["n"] for row in used}
        slot = min(slot_order(slots_count), key=lambda candidate: load.get(candidate, 0))
        row = await connection.fetchrow(
            f"""
            INSERT INTO numbers AS n ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7)
            ON CONFLICT (phone_number_id) DO UPDATE SET
                waba_id = excluded.waba_id, portfolio_id = excluded.portfolio_id, display = excluded.display,
                limit_per_s = excluded.limit_per_s, setting_per_s = excluded.setting_per_s
            RETURNING {_COLUMNS}
            """,  # noqa: S608 - the columns are ours
            phone_number_id, waba_id, portfolio_id, display, limit_per_s, setting, slot,
        )  # fmt: skip
        await connection.execute(
            "INSERT INTO number_leases (phone_number_id) VALUES ($1) ON CONFLICT DO NOTHING", phone_number_id
        )
        await connection.execute("SELECT pg_notify('sluice_work', '')")
    assert row is not None
    return Number(**dict(row))


async def listed(ledger: Ledger) -> list[Number]:
    """Return all numbers, by id."""
    rows = await ledger.rows("numbers", f"SELECT {_COLUMNS} FROM numbers ORDER BY phone_number_id")  # noqa: S608
    return [Number(**dict(row)) for row in rows]


async def work(ledger: Ledger, *, phone_number_ids: Sequence[str]) -> dict[str, Work]:
    """Return, for each of these numbers, its setting and the running campaigns that have rows for it, halted ones aside."""
    settings = await ledger.rows(
        "number_settings",
        "SELECT phone_number_id, setting_per_s FROM numbers WHERE phone_number_id = ANY ($1::text[])",
        list(phone_number_ids),
    )
    rows = await ledger.rows(
        "number_work",
        """
        SELECT p.phone_number_id, p.campaign_id, c.template_name, c.template_language,
               sum(p.seq_to - p.cursor)::bigint AS fresh_count,
               (SELECT extract(epoch FROM min(q.due_at) - clock_timestamp())::float8 FROM due q
                WHERE q.phone_number_id = p.phone_number_id AND q.campaign_id = p.campaign_id) AS due_in_s,
               greatest(0, coalesce(extract(epoch FROM throttled_until(
                   p.phone_number_id, c.template_name, c.template_language) - clock_timestamp()), 0))::float8 AS throttled_s
        FROM parts p JOIN campaigns c ON c.campaign_id = p.campaign_id
        WHERE p.phone_number_id = ANY ($1::text[]) AND c.state = 'running' AND c.valid_until > clock_timestamp()
          AND NOT is_halted(p.campaign_id, p.phone_number_id)
        GROUP BY p.phone_number_id, p.campaign_id, c.template_name, c.template_language
        ORDER BY p.campaign_id
        """,
        list(phone_number_ids),
    )
    parts: dict[str, list[PartWork]] = {row["phone_number_id"]: [] for row in settings}
    for row in rows:
        fields = dict(row)
        number = fields.pop("phone_number_id")
        if number in parts:  # else it was taken away between the two reads
            parts[number].append(PartWork(**fields))
    return {
        row["phone_number_id"]: Work(
            phone_number_id=row["phone_number_id"],
            setting_per_s=row["setting_per_s"],
            parts=tuple(parts[row["phone_number_id"]]),
        )
        for row in settings
    }


async def throttle(
    ledger: Ledger,
    *,
    phone_number_id: str,
    scope: Scope,
    template: str,
    language: str,
    for_s: float,
    code: int,
) -> None:
    """Hold back everything within the scope for `for_s` seconds, siblings and later owners included.

    A longer hold that is already there stays. A pair's hold is its row's due time, so it isn't kept here.
    """
    assert scope is not Scope.PAIR
    await ledger.run(
        "throttle",
        """
        INSERT INTO throttles AS t (scope, key, until, code)
        SELECT $2, CASE $2 WHEN 'number' THEN n.phone_number_id WHEN 'waba' THEN n.waba_id
                           WHEN 'portfolio' THEN n.portfolio_id WHEN 'template' THEN n.waba_id || ':' || $3 || ':' || $4
                           ELSE '*' END, clock_timestamp() + make_interval(secs => $5), $6
        FROM numbers n WHERE n.phone_number_id = $1
        ON CONFLICT (scope, key) DO UPDATE SET until = excluded.until, code = excluded.code, set_at = clock_timestamp()
        WHERE t.until < excluded.until
        """,
        phone_number_id,
        scope.value,
        template,
        language,
        for_s,
        code,
    )
