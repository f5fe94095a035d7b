"""Every service stops in its stated time with exit 0: idle, under load, and whatever it needs is away."""

import asyncio
import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from deploy.local.campaign_run import Run, a_run
from deploy.local.fleet import Stopped
from deploy.local.stack import Stack
from ledger.pool import Ledger
from tests.fault.disaster import FULL, OURS, elapse, frozen, killed, plan_of, until

AWAY_S = 2.0  # how long something has been away when the signal comes
LIBRARY_LINES_MAX = 60  # of one service, from an outage to its end: a few a second


@dataclass(frozen=True)
class Outage:
    """What is away while all are told to stop."""

    name: str
    begin: Callable[[Stack], AbstractContextManager[None]]
    in_short_form: bool = True


def kafka_killed(stack: Stack) -> AbstractContextManager[None]:
    assert stack.kafka
    return killed(stack.kafka)


def kafka_frozen(stack: Stack) -> AbstractContextManager[None]:
    assert stack.kafka
    return frozen(stack.kafka.pid)


def postgres_killed(stack: Stack) -> AbstractContextManager[None]:
    assert stack.postgres
    return killed(stack.postgres)


def postgres_frozen(stack: Stack) -> AbstractContextManager[None]:
    assert stack.postgres
    return frozen(stack.postgres.pid)


OUTAGES = (
    Outage("nothing, under load", lambda _stack: nullcontext()),
    Outage("Kafka killed", kafka_killed),
    Outage("Postgres frozen", postgres_frozen),
    Outage("Kafka frozen", kafka_frozen, in_short_form=False),
    Outage("Postgres killed", postgres_killed, in_short_form=False),
)


def stated_s(service: str) -> float:
    """The drain time that a service states: the default of its setting."""
    config = importlib.import_module(f"{service}.config").Config
    (drain_s,) = (field.default for field in msgspec.structs.fields(config) if field.name == "drain_s")
    return float(drain_s)


def late_or_failed(ended: dict[str, Stopped]) -> dict[str, Stopped]:
    return {
        service: how
        for service, how in ended.items()
        if how.exit_code != 0 or how.seconds >= stated_s(service)
    }


def library_lines(run: Run) -> dict[str, int]:
    """How many lines of libraries each service's last process has written."""
    return {
        service: max(run.fleet.logs.glob(f"{service}*.log"), key=lambda log: log.stat().st_mtime)
        .read_text()
        .count('"event":"library.')
        for service in OURS
    }


def stop_all(run: Run, name: str) -> dict[str, Stopped]:
    ended = run.fleet.stop(*OURS, limit_s=60.0)
    times = ", ".join(f"{service} {how.seconds:.1f} s" for service, how in ended.items())
    print(f"stopped with {name}: {times}")
    assert max(library_lines(run).values()) < LIBRARY_LINES_MAX, library_lines(run)
    return late_or_failed(ended)


@pytest.mark.timeout(150)
def test_each_service_stops_within_its_drain_time_with_exit_0_whatever_is_away(
    mortal: Stack, tmp_path: Path
) -> None:
    plan = plan_of(20_000)  # more than can be sent meanwhile
    wrong: dict[str, dict[str, Stopped]] = {}
    with a_run(mortal.endpoints, plan, tmp_path) as run:
        run.set_up()
        wrong["nothing, idle"] = stop_all(run, "nothing, idle")
        run.fleet.start(*OURS)
        run.fleet.wait_ready("admin")
        run.create_and_import()
        run.launch()
        for outage in OUTAGES:
            if not (FULL or outage.in_short_form):
                continue
            run.fleet.wait_ready(*OURS)
            claimed = run.standing().claimed_count
            until(run, lambda n=claimed: run.standing().claimed_count > n + 20, "load", 60.0)
            with outage.begin(mortal):
                elapse(run, AWAY_S)
                wrong[outage.name] = stop_all(run, outage.name)
            run.fleet.start(*OURS)
        run.fleet.wait_ready(*OURS)
    assert not {name: ended for name, ended in wrong.items() if ended}


@pytest.mark.timeout(60)
async def test_a_statement_on_a_frozen_postgres_that_is_cancelled_ends_cancelled(mortal: Stack) -> None:
    """Else a loop that is told to end goes on, and its service with it."""
    assert mortal.postgres

    async def read(ledger: Ledger) -> None:
        await ledger.value("probe", "SELECT pg_sleep(0.5)")

    async def change(ledger: Ledger) -> None:
        async with ledger.transaction("probe") as connection:
            await connection.execute("SELECT pg_sleep(0.5)")

    url = mortal.endpoints.database_url
    async with Ledger.open(url, shard=0, statement_s=2.0, acquire_s=0.5) as ledger:
        async with asyncio.TaskGroup() as tasks:  # so that none has to connect to a frozen server
            for _ in range(2):
                tasks.create_task(read(ledger))
        async with asyncio.TaskGroup() as tasks:
            callers = [tasks.create_task(call(ledger)) for call in (read, change)]
            await asyncio.sleep(0.2)
            with frozen(mortal.postgres.pid):
                for caller in callers:
                    caller.cancel()
                await asyncio.wait(callers, timeout=5.0)
        assert [caller.cancelled() for caller in callers] == [True, True]
