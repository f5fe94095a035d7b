"""Somebody holds a table: whoever asks admin hears so soon, and nothing of the waiting stays behind."""

import asyncio
import time

import asyncpg
import pytest

from tests.integration.admin.serving import an_admin

ANSWERS_WITHIN_S = 8.0


@pytest.mark.bco("K02")
@pytest.mark.production_times
async def test_bco_k02_while_a_table_is_locked_admin_answers_503_within_seconds_and_then_works_at_once(
    database_url: str,
) -> None:
    locker = await asyncpg.connect(database_url)
    try:
        async with an_admin(database_url) as (_, client):
            async with locker.transaction():
                await locker.execute("LOCK TABLE campaigns IN ACCESS EXCLUSIVE MODE")
                began = time.monotonic()
                async with asyncio.TaskGroup() as tasks:
                    asked = [tasks.create_task(client.get("/v1/campaigns")) for _ in range(30)]
                took_s = time.monotonic() - began
            assert {task.result().status_code for task in asked} == {503}
            assert took_s < ANSWERS_WITHIN_S
            assert (await client.get("/v1/campaigns")).status_code == 200
            sessions = await locker.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sluice-admin'"
            )
            assert sessions <= 8, "thirty callers that waited in vain have left no connection behind"
    finally:
        await locker.close()
