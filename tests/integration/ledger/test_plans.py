"""The statements find rows by key in their own partition, and updates stay HOT, however large the tables have grown."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from uuid import uuid4

import pytest

from ledger import recipients, statuses
from ledger.pool import Ledger
from ledger.recipients import Settlement
from tests.integration.ledger.campaigns_for_tests import (
    NUMBER,
    a_running_campaign,
    claim,
    counters_equal_rows,
    launch_campaign,
    status,
)

ROWS = 200_000
CAMPAIGNS = 4
SIZE = ROWS // CAMPAIGNS


@asynccontextmanager
async def many_rows(
    database_url: str, *, in_one_partition: bool = False
) -> AsyncIterator[tuple[Ledger, int, int]]:
    """Yield (ledger, campaign, epoch) among several campaigns in partitions of their own, half of whose rows have ended."""
    async with a_running_campaign(database_url, size=10) as (ledger, _, epoch):
        found = []
        for _ in range(CAMPAIGNS):
            if not in_one_partition:
                await ledger.run("far", FAR)
            found.append(await launch_campaign(ledger, size=1))
        async with ledger.transaction("fill") as connection:
            await connection.execute("SET LOCAL statement_timeout = '60s'")
            for campaign_id in found:
                await connection.execute(FILL.format(campaign=campaign_id, size=SIZE), timeout=60)
        async with ledger.connection("analyze") as connection:
            await connection.execute("SET statement_timeout = '60s'")
            await connection.execute("VACUUM ANALYZE", timeout=60)
            await connection.execute("RESET statement_timeout")
        yield ledger, found[1], epoch


# The next campaign's partition is another one.
FAR = "SELECT setval('campaigns_campaign_id_seq', last_value + 64) FROM campaigns_campaign_id_seq"
FILL = """
INSERT INTO recipients SELECT {campaign}, g, 1000 + g, g, '+15550100000', ARRAY['A'] FROM generate_series(2, {size}) g;
INSERT INTO recipient_states (campaign_id, seq, state, attempt, attempt_last, tries, proof, best, delivered_at)
SELECT {campaign}, g, 'delivered', 1, 1, 1, 4, 4, now() FROM generate_series(2, {size} / 2) g;
INSERT INTO recipient_states (campaign_id, seq, state)
SELECT {campaign}, g, 'pending' FROM generate_series({size} / 2 + 1, {size}) g;
UPDATE parts SET seq_to = {size}, cursor = {size} / 2 WHERE campaign_id = {campaign};
UPDATE recipient_states SET state = 'cancelled', reason = 'campaign_cancelled' WHERE campaign_id = {campaign} AND seq = 1;
DELETE FROM campaign_counters WHERE campaign_id = {campaign};
INSERT INTO campaign_counters SELECT campaign_id, 1, state, count(*) FROM recipient_states
WHERE campaign_id = {campaign} GROUP BY 1, 3;
INSERT INTO wamids SELECT 'wamid.{campaign}.' || seq, campaign_id, seq, 1 FROM recipient_states
WHERE campaign_id = {campaign} AND attempt = 1;
"""


async def read_by(ledger: Ledger) -> dict[str, tuple[int, int, int, int]]:
    """Return (scans of the whole table, rows fetched by index, updates, HOT ones) of each large table."""
    await ledger.run("flush", "SELECT pg_stat_force_next_flush()")
    rows = await ledger.rows(
        "scans",
        "SELECT relname, seq_scan, coalesce(idx_tup_fetch, 0), n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
        " WHERE relname ~ '^(recipients|recipient_states)_' OR relname = 'wamids'",
    )
    return {row[0]: tuple(row)[1:] for row in rows}


@pytest.mark.parametrize("in_one_partition", [False, True])
@pytest.mark.parametrize("batch", [8, 500])
async def test_a_send_reads_by_key_in_its_own_partition_and_its_updates_are_hot(
    database_url: str, batch: int, in_one_partition: bool
) -> None:
    rng = Random(1)
    async with many_rows(database_url, in_one_partition=in_one_partition) as (ledger, campaign_id, epoch):
        before = await read_by(ledger)
        # More than five times, so that the plans that a session keeps are among them.
        for _ in range(12):
            name = uuid4()
            claimed = await recipients.claim(
                ledger, phone_number_id=NUMBER, epoch=epoch, campaign_id=campaign_id, limit=batch, name=name,
                ends_in_s=60,
            )  # fmt: skip
            kinds = ["accepted", "accepted", "refused", "returned", "unknown"]
            await recipients.settle(
                ledger,
                [
                    Settlement(
                        campaign_id=campaign_id, seq=row.seq, attempt=row.attempt, kind=rng.choice(kinds), due_in_s=0.0,
                        gives_back=True, wamid=f"wamid.{row.seq}.{row.attempt}",
                    )
                    for row in claimed.rows
                ],
                finished_claims=[name],
            )  # fmt: skip
            for times in ({"sent_s": 1}, {"delivered_s": 2}):
                found = [status(campaign_id, row.seq, row.attempt, **times) for row in claimed.rows]
                assert await statuses.apply(ledger, found) == []
        after = await read_by(ledger)

        own = f"_{campaign_id // 64}"
        grown = {
            table: tuple(b - a for a, b in zip(before[table], after[table], strict=True)) for table in after
        }
        assert {table: scans[0] for table, scans in grown.items() if scans[0]} == {}
        fetched = {table: counts[1] for table, counts in grown.items() if counts[1] and table != "wamids"}
        assert set(fetched) == {f"recipients{own}", f"recipient_states{own}"}
        # Each statement looks a few times at each of its rows, and at no others.
        assert max(fetched.values()) < 12 * batch * 25, fetched
        _, _, updated, hot = grown[f"recipient_states{own}"]
        print(f"batches of {batch}: {updated} updates, {hot / updated:.0%} of them HOT, {fetched}")
        assert updated > 12 * batch
        assert hot >= 0.8 * updated


async def test_what_recovers_rows_reads_by_key_too(database_url: str) -> None:
    async with many_rows(database_url) as (ledger, campaign_id, epoch):
        before = await read_by(ledger)
        for _ in range(8):
            await claim(ledger, campaign_id, epoch, 100)
            assert await recipients.reclaim(ledger) > 0
            await ledger.run("age", "UPDATE unknown_rows SET since = since - interval '1 h'")
            await recipients.reconcile(ledger, patience_s=0.0)
        await ledger.run(
            "expire",
            "UPDATE campaigns SET valid_until = clock_timestamp() WHERE campaign_id = $1",
            campaign_id,
        )
        for start in range(0, 8000, 1000):
            await recipients.end_rows(ledger, campaign_id=campaign_id, after_seq=start, span=1000)
        after = await read_by(ledger)
        grown = {table: after[table][0] - before[table][0] for table in after}
        assert {table: scans for table, scans in grown.items() if scans} == {}
        await counters_equal_rows(ledger, campaign_id)
