"""Postgres dies, or stands still, in mid-campaign: nothing starts without its permission, and nothing is lost."""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from deploy.local.audience import csv_bytes, people
from deploy.local.campaign_run import TEMPLATE, Run
from deploy.local.stack import Stack
from tests.fault.disaster import (
    LEASE_S,
    at,
    elapse,
    frozen,
    judged,
    killed,
    plan_of,
    sending,
    until,
    until_claimed,
)

IMPORTED = 80_000  # rows: an import that is under way for seconds


@pytest.mark.timeout(150)
def test_with_postgres_killed_nobody_is_lost_or_doubled(mortal: Stack, tmp_path: Path) -> None:
    postgres = mortal.postgres
    assert postgres
    with sending(mortal.endpoints, plan_of(800), tmp_path, share=0.25) as run:
        killed_at = time.time()
        postgres.kill()
        elapse(run, at(4, 60))
        starting_at = time.time()
        postgres.start()
        found = judged(run, "Postgres killed", since=time.time())
    assert found.arrived_between(killed_at + LEASE_S, starting_at) == 0, "no lease, no start"


@pytest.mark.timeout(150)
def test_with_postgres_frozen_nobody_is_lost_or_doubled(mortal: Stack, tmp_path: Path) -> None:
    """A frozen server refuses nothing: every statement has to end by its own time-out."""
    postgres = mortal.postgres
    assert postgres
    with sending(mortal.endpoints, plan_of(800), tmp_path, share=0.25) as run:
        frozen_at = time.time()
        with frozen(postgres.pid):
            elapse(run, at(5, 30))
            woken_at = time.time()
        found = judged(run, "Postgres frozen", since=woken_at)
    assert found.arrived_between(frozen_at + LEASE_S, woken_at) == 0, "no lease, no start"


def a_draft(run: Run) -> str:
    """The id of a second campaign, which nobody launches."""
    created = run.command(
        "campaign", "create", "--name", "second", "--template", TEMPLATE, "--param", "name", "--param", "order",
        "--number", run.plan.numbers[0].phone_number_id, "--json",
    )  # fmt: skip
    return str(json.loads(created)["campaign_id"])


async def imported_count(database_url: str, campaign_id: str) -> int:
    connection = await asyncpg.connect(database_url)
    try:
        sql = "SELECT count(*) FROM audience_rows WHERE campaign_id = $1"
        return int(await connection.fetchval(sql, int(campaign_id)))
    finally:
        await connection.close()


async def end_all_sessions(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    finally:
        await connection.close()


@pytest.mark.bco("K03")
@pytest.mark.timeout(180)
def test_bco_k03_a_database_that_restarts_again_and_again_ends_nobody_and_an_import_is_all_or_nothing(
    mortal: Stack, tmp_path: Path
) -> None:
    """Killed while a campaign is claimed, settled and told of, and once in the middle of an import; then all sessions
    are ended, every second."""
    postgres = mortal.postgres
    assert postgres
    file = tmp_path / "second.csv"
    file.write_bytes(csv_bytes(people(IMPORTED, seed=9)))
    with (
        sending(mortal.endpoints, plan_of(1_400), tmp_path, share=0.1) as run,
        ThreadPoolExecutor(1) as other,
    ):
        second = a_draft(run)
        importing = other.submit(run.fleet.sluice, "campaign", "import", second, str(file))
        elapse(run, 0.7)
        assert not importing.done(), "the import was over before the database died"
        for n in range(at(2, 5)):
            with killed(postgres):
                elapse(run, at(1, 40))
            until_claimed(run, 0.25 + 0.1 * n)
        cut = importing.result()
        for _ in range(at(3, 30)):
            asyncio.run(end_all_sessions(run.fleet.setup.database_url))
            elapse(run, at(1, 2))
        since = time.time()
        until(run, lambda: run.fleet.is_ready("admin"), "admin to be ready", 30.0)
        left = asyncio.run(imported_count(run.fleet.setup.database_url, second))
        again = run.fleet.sluice("campaign", "import", second, str(file))
        whole = asyncio.run(imported_count(run.fleet.setup.database_url, second))
        found = judged(run, "Postgres killed again and again", since=since)
        starts = dict(run.fleet.starts)
    assert cut.returncode != 0, "an import whose database died said that it was done"
    assert left == 0, "half an import"
    assert again.returncode == 0, again.stderr
    assert whole > 0.99 * IMPORTED
    assert max(starts.values()) <= 2, f"a supervisor had to start one again and again: {starts}"
    assert found.counts.get("given_up", 0) == 0, "no sender died: each row's end is known"
