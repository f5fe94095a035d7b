"""The pool under a storm: whoever gives up, or is cancelled, leaves no connection behind."""

import asyncio
import random
import time

import asyncpg
import pytest

from ledger.pool import Ledger, LedgerUnavailable

CONNECTIONS = 5


async def quiet(ledger: Ledger) -> bool:
    """Every connection of the pool is free."""
    return ledger._pool.get_idle_size() == ledger._pool.get_size()


async def sessions_count(database_url: str) -> int:
    looker = await asyncpg.connect(database_url)
    try:
        return int(
            await looker.fetchval("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'storm'")
        )
    finally:
        await looker.close()


async def all_are_free(ledger: Ledger) -> None:
    """As many statements as there are connections are answered at once, sooner or later; else `TimeoutError`."""
    answers: list[object] = []
    async with asyncio.timeout(30):
        while not await quiet(ledger):
            await asyncio.sleep(0.02)
        while answers != [1] * CONNECTIONS:  # some were perhaps still being made anew
            asked = (ledger.value("one", "SELECT 1") for _ in range(CONNECTIONS))
            answers = await asyncio.gather(*asked, return_exceptions=True)


@pytest.mark.bco("K01")
async def test_bco_k01_after_a_storm_of_time_outs_and_cancellations_every_connection_is_free(
    database_url: str,
) -> None:
    rng = random.Random(3)
    outcomes = {"answered": 0, "refused": 0}
    async with Ledger.open(
        database_url, shard=0, connections_max=CONNECTIONS, acquire_s=0.1, application="storm"
    ) as ledger:

        async def ask(sleep_s: float) -> None:
            try:
                await ledger.value("sleep", "SELECT pg_sleep($1)", sleep_s)
                outcomes["answered"] += 1
            except LedgerUnavailable:
                outcomes["refused"] += 1

        async def give_up(sleep_s: float, after_s: float) -> None:
            async with asyncio.timeout(after_s):
                await ask(sleep_s)

        async with asyncio.timeout(30):
            while not outcomes["answered"]:  # until then, 0.1 s may be too short for a connection to be made
                await ask(0)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(200):
                tasks.create_task(ask(0.3))
        assert outcomes["refused"] >= 100
        for _ in range(5):
            storm = [
                asyncio.ensure_future(give_up(rng.uniform(0, 0.05), rng.uniform(0, 0.15))) for _ in range(200)
            ]
            await asyncio.gather(*storm, return_exceptions=True)

        await all_are_free(ledger)
        assert await sessions_count(database_url) <= CONNECTIONS


async def test_a_client_that_freezes_within_a_transaction_keeps_its_locks_for_a_second_at_most(
    database_url: str,
) -> None:
    lock = "SELECT pg_advisory_xact_lock(42)"
    waited_s: list[float] = []
    async with (
        Ledger.open(database_url, shard=0, statement_s=1.0) as frozen,
        Ledger.open(database_url, shard=1, statement_s=5.0) as other,
    ):

        async def freezes() -> None:
            async with frozen.transaction("frozen") as connection:
                await connection.execute(lock)
                began = time.monotonic()
                await other.run("lock", lock)  # meanwhile the one that holds it says nothing
                waited_s.append(time.monotonic() - began)
                await connection.execute("SELECT 1")

        with pytest.raises(LedgerUnavailable):
            await freezes()
    assert [0.5 < seconds < 4.5 for seconds in waited_s] == [True]
