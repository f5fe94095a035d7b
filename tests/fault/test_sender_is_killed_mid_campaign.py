"""A sender dies by SIGKILL in mid-campaign, twice, and another goes on: nobody is lost, nobody gets it twice."""

import time
from pathlib import Path

import pytest

from deploy.local.campaign_run import Plan, Standing, a_run
from deploy.local.demo import JOURNEYS, WEBHOOKS
from deploy.local.stack import Endpoints
from tests.fault.disaster import END_LIMIT_S, SCALE, at, judged

KILLED_AT = (0.25, 0.6)


def unseen(_standing: Standing) -> None:
    """Nobody watches a test."""


def run_with_two_kills(stack: Endpoints, folder: Path, on_unknown: str) -> tuple[dict[str, int], str]:
    """Run a campaign whose sender is killed twice; return its counts, and the table of the judge who found it right."""
    plan = Plan(
        count=at(1_200, 4_800),
        seed=5,
        on_unknown=on_unknown,
        unknown_wait_s=at(6, 24),
        timing_scale=SCALE,
        faults={"timeout_after_accept": 0.01, "late_s": 3.0, "webhook_before_answer": 0.05},
        # Each accepted message gets a status that names its attempt, so each can be found.
        journeys={**JOURNEYS, "silent": 0.0, "callback_data_missing": 0},
        webhooks=WEBHOOKS,
    )
    with a_run(stack, plan, folder) as run:
        run.set_up()
        run.create_and_import()
        run.launch()
        for share in KILLED_AT:
            run.watch(lambda s, n=share * plan.count: s.claimed_count >= n, unseen, END_LIMIT_S)
            run.fleet.kill("sender")
            run.fleet.start("sender")
            killed_at = time.time()
        found = judged(run, f"sender killed twice, {on_unknown}", since=killed_at)
        return found.counts, found.table


@pytest.mark.bco("G05")
@pytest.mark.timeout(240)
def test_bco_g05_under_give_up_a_killed_sender_loses_and_doubles_nothing(
    stack: Endpoints, tmp_path: Path
) -> None:
    """What was claimed and never called ends given up, with its reason; what was accepted is found by its statuses."""
    counts, table = run_with_two_kills(stack, tmp_path, "give_up")
    assert counts["given_up"] > 0, "the kills hit nobody: nothing was tried"
    assert "explained unknowns: 0 had been accepted" in table


@pytest.mark.bco("G05")
@pytest.mark.timeout(240)
def test_bco_g05_under_resend_those_never_called_are_sent_to_once(stack: Endpoints, tmp_path: Path) -> None:
    counts, table = run_with_two_kills(stack, tmp_path, "resend")
    assert counts["given_up"] == 0, table
