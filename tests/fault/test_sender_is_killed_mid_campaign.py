"""A sender dies by SIGKILL in mid-campaign, twice, and another goes on: nobody is lost, nobody gets it twice."""

from pathlib import Path

import pytest

from deploy.local.campaign_run import Plan, Standing, a_run
from deploy.local.demo import JOURNEYS, WEBHOOKS
from deploy.local.stack import Endpoints


def unseen(_standing: Standing) -> None:
    """Nobody watches a test."""


@pytest.mark.timeout(240)
def test_under_give_up_a_killed_sender_loses_and_doubles_nothing(stack: Endpoints, tmp_path: Path) -> None:
    plan = Plan(
        count=1_200,
        seed=5,
        on_unknown="give_up",
        unknown_wait_s=6,
        timing_scale=0.25,
        faults={"timeout_after_accept": 0.01, "late_s": 3.0, "webhook_before_answer": 0.05},
        journeys=JOURNEYS,
        webhooks=WEBHOOKS,
    )
    with a_run(stack, plan, tmp_path) as run:
        run.set_up()
        run.create_and_import()
        run.launch()
        for share in (0.25, 0.6):
            run.watch(lambda s, n=share * plan.count: s.claimed_count >= n, unseen, 90)
            run.fleet.kill("sender")
            run.fleet.start("sender")
        run.watch(lambda s: s.state == "completed", unseen, 150)
        run.wait_until_quiet()
        code, table = run.judge()
        print(table)
        assert code == 0, table
