"""The last stage stands still under full load: memory stays under its ceiling, Kafka's disk takes what waits."""

import asyncio
import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from deploy.local.campaign_run import Number, Run, a_run
from deploy.local.stack import Stack
from tests.fault.disaster import OURS, TIMES, at, elapse, frozen, judged, plan_of, until_claimed
from tests.fault.memory import watching_memory
from tests.fault.webhooks import Item, posting, some_statuses, statuses_on

STALL_S = at(14, 120)  # each of the two
NUMBERS = tuple(Number(f"10000000000000{n}", limit=110, setting=100) for n in (1, 2))
CONNECTIONS = 64
STATUSES = 100  # a body
PAUSE_S = 0.5  # of each connection
WINDOW_BYTES = 16 * 1024 * 1024

HANGING = {"webhook_before_answer": 0.0, "timeout_after_accept": 1.0, "late_s": 3.0}

# MB of resident memory: what the process takes when it starts (imports, drivers), and what its capacities hold.
CEILINGS_MB = {
    "ingress": 80 + 3 * WINDOW_BYTES // 1_000_000,  # bodies in the window, three times with their records
    "status_aggregator": 90 + 110,  # 256 records of 64 KiB and a fetch of 1 MiB a partition, decoded
    "conversations": 90 + 50,  # 2,000 messages in hand, one fetch
    "sender": 120,  # 512 calls, 2,000 results, half a second of claims: whatever the audience
    "orchestrator": 100,
    "admin": 100,
}


def flood() -> Iterator[Item]:
    """Statuses of another application, and in each body one of a message that nobody knows yet: it will be parked."""
    for n in itertools.count():
        statuses = [
            {
                "id": f"wamid.FLOOD{n}-{k}",
                "status": "delivered",
                "timestamp": str(int(time.time())),
                "recipient_id": f"44770090{k:04}",
                **({"biz_opaque_callback_data": f"elsewhere:{n}:{k}"} if k else {}),
            }
            for k in range(STATUSES)
        ]
        yield some_statuses(NUMBERS[0].phone_number_id, statuses)


async def parked_count(database_url: str) -> int:
    connection = await asyncpg.connect(database_url)
    try:
        return int(
            await connection.fetchval("SELECT count(*) FROM parked_statuses WHERE wamid LIKE 'wamid.FLOOD%'")
        )
    finally:
        await connection.close()


def statuses_lag(run: Run) -> int:
    return run.lag("status-aggregator", "message-statuses")


@pytest.mark.timeout(200)
def test_with_the_last_stage_stalled_under_full_load_memory_stays_under_its_ceiling_and_nothing_is_lost(
    mortal: Stack, tmp_path: Path
) -> None:
    """First Postgres stands still, then both consumers do while Graph lets every call hang."""
    assert mortal.postgres
    plan = replace(
        plan_of(int(200 * (STALL_S + 6.0)) // at(1, TIMES), numbers=NUMBERS),
        ingress_window_bytes=WINDOW_BYTES,
    )
    with a_run(mortal.endpoints, plan, tmp_path) as run, ExitStack() as ending:
        run.set_up()
        run.create_and_import()
        run.launch()
        until_claimed(run, 0.05)
        most = ending.enter_context(watching_memory(run.fleet, OURS))
        with posting(run.fleet.webhook_url, flood(), connections=CONNECTIONS, pause_s=PAUSE_S) as account:
            elapse(run, 2.0)
            lag_before = statuses_lag(run)
            with frozen(mortal.postgres.pid):
                elapse(run, STALL_S)
                lag_without_postgres = statuses_lag(run)
            run.fleet.simulator("/sim/setup", {"faults": HANGING})
            with ExitStack() as stalled:
                for service in ("status_aggregator", "conversations"):
                    stalled.enter_context(frozen(run.fleet.pid(service)))
                elapse(run, STALL_S)
                lag_without_consumers = statuses_lag(run)
            run.fleet.simulator("/sim/setup", {"faults": {"timeout_after_accept": 0.0}})
        released_at = time.time()
        found = judged(run, "stalled", since=released_at)
        print(f"drained after {time.time() - released_at:.0f} s")
        parked = asyncio.run(parked_count(run.fleet.setup.database_url))
        on_topic = statuses_on(
            mortal.endpoints.kafka_bootstrap,
            run.fleet.setup.topic_prefix + "message-statuses",
            account.posted,
        )
    print(f"bodies {dict(account.answers)}, {STATUSES} statuses each")
    print(f"lag {lag_before}, {lag_without_postgres}, {lag_without_consumers} records; most MB {most}")
    assert set(account.answers) <= {200, 503}, account.answers
    assert lag_without_postgres > lag_before + 100, "what waits, waits on disk"
    assert lag_without_consumers > lag_before + 100
    assert {service: taken for service, taken in most.items() if taken > CEILINGS_MB[service]} == {}
    assert not account.acknowledged - on_topic.keys(), "answered 200 and not on its topic"
    assert parked == len(account.posted), "each status of a message nobody knows waits for it"
    assert found.counts.get("given_up", 0) == 0, "each call that hung is found by its statuses"
