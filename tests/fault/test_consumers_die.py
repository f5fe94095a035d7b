"""Everyone but the sender dies in mid-campaign, one after the other, and is started again."""

import time
from pathlib import Path

import pytest

from deploy.local.stack import Endpoints
from tests.fault.disaster import judged, plan_of, sending, until_claimed

DEATHS = (("conversations", 0.15), ("status_aggregator", 0.35), ("ingress", 0.55), ("orchestrator", 0.75))


@pytest.mark.timeout(150)
def test_each_service_that_receives_or_watches_dies_once_and_nothing_is_missing(
    stack: Endpoints, tmp_path: Path
) -> None:
    plan = plan_of(1_200)
    with sending(stack, plan, tmp_path, share=0.05) as run:
        for service, share in DEATHS:
            until_claimed(run, share)
            run.fleet.kill(service)
            run.fleet.start(service)
            last_at = time.time()
        found = judged(run, "four deaths", since=last_at)
    assert found.counts.get("given_up", 0) == 0, "no sender died: each row's end is known"
