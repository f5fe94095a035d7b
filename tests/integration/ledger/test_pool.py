"""The pool under a storm: whoever gives up, or is cancelled, leaves no connection behind."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from ledger.pool import Ledger, LedgerUnavailable
from tests.stalls import watching

CONNECTIONS = 5


async def quiet(ledger: Ledger) -> bool:
    """Every connection of the pool is free."""
    return ledger._pool.get_idle_size() == ledger._pool.get_size()


@asynccontextmanager
async def connected(database_url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(database_url)
    try:
        yield connection
    finally:
        await connection.close()


async def sessions(looker: "asyncpg.Connection[asyncpg.Record]") -> int:
    return int(
        await looker.fetchval("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'storm'")
    )


async def all_is_free(ledger: Ledger) -> None:
    """Wait until all connections are at rest, and answer at once."""
    while not await quiet(ledger):
        await asyncio.sleep(0.02)
    answered: list[object] = []
    while (
        answered != [1] * CONNECTIONS
    ):  # a tenth of a second to acquire one may be too little on a busy machine
        at_once = [ledger.value("one", "SELECT 1") for _ in range(CONNECTIONS)]
        answered = await asyncio.gather(*at_once, return_exceptions=True)


@pytest.mark.bco("K01")
@pytest.mark.production_times
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

        while not outcomes[
            "answered"
        ]:  # to connect within the time to acquire is a matter of the machine's load
            async with asyncio.TaskGroup() as tasks:
                for _ in range(200):
                    tasks.create_task(ask(0.3))
        assert outcomes["refused"] >= 100
        for _ in range(5):
            storm = [
                asyncio.ensure_future(give_up(rng.uniform(0, 0.05), rng.uniform(0, 0.15))) for _ in range(200)
            ]
            await asyncio.gather(*storm, return_exceptions=True)

        async with asyncio.timeout(60):
            await all_is_free(ledger)
            async with connected(database_url) as looker:
                while await sessions(looker) > CONNECTIONS:  # the server notices a little later who has gone
                    await asyncio.sleep(0.05)


@pytest.mark.production_times
async def test_a_client_that_freezes_within_a_transaction_keeps_its_locks_for_a_second_at_most(
    database_url: str,
) -> None:
    lock = "SELECT pg_advisory_xact_lock(42)"
    waited_s: list[float] = []
    loop = asyncio.get_running_loop()
    async with (
        Ledger.open(database_url, shard=0, statement_s=1.0) as frozen,
        connected(database_url) as other,
        connected(database_url) as witness,
        watching(lambda: witness.fetchval("SELECT 1")) as stalls,
    ):

        async def freezes() -> None:
            async with frozen.transaction("frozen") as connection:
                await connection.execute(lock)
                began = loop.time()
                await other.execute(lock, timeout=30)  # meanwhile the one that holds it says nothing
                waited_s.append(loop.time() - began - stalls.lost_s(began, loop.time()))
                await connection.execute("SELECT 1")

        with pytest.raises(LedgerUnavailable):
            await freezes()
    assert [seconds < 3.0 for seconds in waited_s] == [True]


async def end_sessions(database_url: str, application: str) -> None:
    looker = await asyncpg.connect(database_url)
    try:
        sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1"
        await looker.execute(sql, application)
    finally:
        await looker.close()


FIRST = (asyncpg.AdminShutdownError, asyncpg.ConnectionDoesNotExistError)


@pytest.mark.bco("K03")
async def test_bco_k03_the_first_error_is_the_cause_and_is_logged_once_whatever_fails_after_it(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server ends the session in mid-statement, so that the rollback and the connection's return fail too."""
    ends = "SELECT pg_terminate_backend(pg_backend_pid())"

    async def cut() -> None:
        async with ledger.transaction("cut") as connection:
            await connection.execute(ends)

    async def fails() -> None:
        async with ledger.transaction("fails") as connection:
            with pytest.raises(FIRST):
                await connection.execute(ends)
            raise ValueError("a bug")

    async with Ledger.open(database_url, shard=0) as ledger:
        capsys.readouterr()
        causes = []
        for _ in range(2):
            with pytest.raises(LedgerUnavailable) as told:
                await cut()
            causes.append(told.value.__cause__)
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert await ledger.value("one", "SELECT 1") == 1
        with pytest.raises(ValueError, match="a bug"):
            await fails()
    assert all(isinstance(cause, FIRST) for cause in causes), "not what the rollback said"
    failures = [line for line in lines if line["event"] == "database.failed"]
    assert [line["name"] for line in failures] == ["cut"], "one line an outage"
    assert failures[0]["error"] == type(causes[0]).__name__


@pytest.mark.bco("K03")
async def test_bco_k03_those_who_lost_the_database_together_do_not_return_together(database_url: str) -> None:
    """Eight connections and waits of up to half a second: all within a twentieth is chance once in ten million."""
    began = (
        "SELECT extract(epoch FROM backend_start)::float8 FROM pg_stat_activity WHERE pid = pg_backend_pid()"
    )
    async with Ledger.open(database_url, shard=0, connections_max=8, application="spread") as ledger:

        async def starts() -> list[float]:
            """When each of the eight connections began, all of them being in use at once."""
            met = asyncio.Barrier(8)

            async def one() -> float:
                async with ledger.connection("began") as connection:
                    await met.wait()
                    return float(await connection.fetchval(began))

            return await asyncio.gather(*(one() for _ in range(8)))

        before = await starts()
        await end_sessions(database_url, "spread")
        async with asyncio.timeout(30):
            while ledger._pool.get_size():
                await asyncio.sleep(0.01)
        after = await starts()
    assert min(after) > max(before)
    assert max(after) - min(after) > 0.05
