"""Postgres dies, or stands still, in mid-campaign: nothing starts without its permission, and nothing is lost."""

import time
from pathlib import Path

import pytest

from deploy.local.stack import Stack
from tests.fault.disaster import LEASE_S, at, elapse, frozen, judged, plan_of, sending


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
