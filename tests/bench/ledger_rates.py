"""How many rows one connection claims and settles a second, and how many statuses it applies, all guards and counters on.

`python tests/bench/ledger_rates.py [--seconds 3]`; prints figures only.
"""

import argparse
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import uvloop

from contracts.campaign import CampaignDefinition, TemplateRef
from contracts.status import CampaignRow
from deploy.local.stack import create_database, drop_database, in_thread, running_stack
from ledger import audience, campaigns, leases, migrate, numbers, recipients, statuses
from ledger.audience import AudienceRow
from ledger.pool import Ledger
from ledger.recipients import Claimed, Settlement
from ledger.statuses import AttemptStatus

NUMBER = "100000000000001"
SIZE = 200_000


async def a_campaign(ledger: Ledger) -> int:
    campaign_id = await campaigns.create(
        ledger,
        CampaignDefinition(
            name="bench", template=TemplateRef(name="hello", language="en", body=("name",)), numbers=(NUMBER,)
        ),
    )

    async def rows() -> AsyncIterator[list[AudienceRow]]:
        for start in range(0, SIZE, 20_000):
            yield [
                AudienceRow(line=i, address=f"+1555{i:07}", folded=f"1555{i:07}", params=("A",))
                for i in range(start, start + 20_000)
            ]

    started = time.perf_counter()
    await audience.add(ledger, campaign_id, rows())
    print(f"import            {SIZE / (time.perf_counter() - started):10,.0f} rows/s")
    started = time.perf_counter()
    await campaigns.launch(ledger, campaign_id)
    print(f"freeze            {SIZE / (time.perf_counter() - started):10,.0f} rows/s")
    async with ledger.connection("analyze") as connection:
        await connection.execute("SET statement_timeout = '60s'")
        await connection.execute("VACUUM ANALYZE", timeout=60)
        await connection.execute("RESET statement_timeout")
    return campaign_id


async def claim_and_settle(
    ledger: Ledger, campaign_id: int, epoch: int, *, batch: int, seconds: float
) -> list[Claimed]:
    done: list[Claimed] = []
    claiming = settling = 0.0
    while claiming + settling < seconds:
        name = uuid4()
        started = time.perf_counter()
        answer = await recipients.claim(
            ledger, phone_number_id=NUMBER, epoch=epoch, campaign_id=campaign_id, limit=batch, name=name, ends_in_s=60
        )  # fmt: skip
        claimed = time.perf_counter()
        if not answer.rows:
            break
        results = [
            Settlement(
                campaign_id=campaign_id, seq=row.seq, attempt=row.attempt, kind="accepted",
                wamid=f"wamid.{secrets.token_urlsafe(36)}",
            )
            for row in answer.rows
        ]  # fmt: skip
        built = time.perf_counter()
        await recipients.settle(ledger, results, finished_claims=[name])
        claiming += claimed - started
        settling += time.perf_counter() - built
        done += answer.rows
    rate = len(done) / (claiming + settling)
    calls = len(done) / batch
    print(
        f"claim + settle    {rate:10,.0f} rows/s at batches of {batch}"
        f" ({claiming / calls * 1000:.1f} + {settling / calls * 1000:.1f} ms a call)"
    )
    return done


async def apply(ledger: Ledger, campaign_id: int, rows: list[Claimed], *, batch: int, at_s: int) -> None:
    spent = 0.0
    for start in range(0, len(rows), batch):
        found = [
            AttemptStatus(
                row=CampaignRow(campaign_id, row.seq, row.attempt), phone_number_id=NUMBER, delivered_s=at_s,
                sent_s=at_s - 1,
            )
            for row in rows[start : start + batch]
        ]  # fmt: skip
        started = time.perf_counter()
        assert await statuses.apply(ledger, found) == []
        spent += time.perf_counter() - started
    print(f"statuses applied  {len(rows) / spent:10,.0f} rows/s at batches of {batch}")


async def measure(database_url: str, seconds: float) -> None:
    await migrate.apply(database_url)
    async with Ledger.open(database_url, shard=1, statement_s=30.0) as ledger:
        await numbers.add(
            ledger, phone_number_id=NUMBER, waba_id="200000000000001", portfolio_id="p1", display="", limit_per_s=80,
            setting_per_s=76, slots_count=4,
        )  # fmt: skip
        campaign_id = await a_campaign(ledger)
        taken = await leases.take(ledger, phone_number_id=NUMBER, owner=uuid4(), lease_s=3600, grace_s=2)
        assert taken is not None
        done: list[Claimed] = []
        for batch in (8, 40, 500):
            done += await claim_and_settle(ledger, campaign_id, taken.epoch, batch=batch, seconds=seconds)
        await apply(ledger, campaign_id, done[: len(done) // 2], batch=100, at_s=1_796_040_000)
        await apply(ledger, campaign_id, done[len(done) // 2 :], batch=1000, at_s=1_796_040_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each size of batch runs")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_stack(Path(folder)) as endpoints:
        name = f"bench_{secrets.token_hex(4)}"
        url = in_thread(create_database(endpoints.database_url, name))
        try:
            uvloop.run(measure(url, asked.seconds))
        finally:
            in_thread(drop_database(endpoints.database_url, name))


if __name__ == "__main__":
    main()
