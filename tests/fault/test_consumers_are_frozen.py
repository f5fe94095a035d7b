"""Everyone but the sender is frozen past its session in mid-campaign, one after the other, and wakes."""

import time
from pathlib import Path

import pytest

from deploy.local.stack import Endpoints
from tests.fault.disaster import at, elapse, frozen, judged, plan_of, sending, until_claimed

FROZEN_S = at(4, 40)  # a session is 3 s here
FREEZES = (("conversations", 0.1), ("status_aggregator", 0.25), ("orchestrator", 0.4), ("ingress", 0.55))
SECONDS = ("conversations-b", "status_aggregator-b")  # they take over; one ingress is Meta's only address


@pytest.mark.timeout(150)
def test_each_service_that_receives_or_watches_is_frozen_past_its_session_and_nothing_is_missing_or_handled_twice(
    stack: Endpoints, tmp_path: Path
) -> None:
    """The judge counts: each message handled once and in order, each status in its row, nobody lost or doubled."""
    plan = plan_of(at(1_800, 3_500))
    with sending(stack, plan, tmp_path, share=0.02, more=SECONDS) as run:
        for service, share in FREEZES:
            until_claimed(run, share)
            with frozen(run.fleet.pid(service)):
                elapse(run, FROZEN_S)
            woken_at = time.time()
        found = judged(run, "four freezes", since=woken_at)
    assert found.counts.get("given_up", 0) == 0, "no sender was touched: each row's end is known"
