"""All of Sluice dies at one moment in mid-campaign, as in a power cut, and starts again by itself."""

import time
from pathlib import Path

import pytest

from deploy.local.stack import Endpoints
from tests.fault.disaster import OURS, judged, plan_of, sending


@pytest.mark.timeout(150)
@pytest.mark.parametrize("on_unknown", ["give_up", "resend"])
def test_after_all_services_were_killed_at_once_nobody_is_lost_or_doubled(
    on_unknown: str, stack: Endpoints, tmp_path: Path
) -> None:
    with sending(stack, plan_of(800, on_unknown=on_unknown), tmp_path, share=0.4) as run:
        run.fleet.kill(*OURS)
        run.fleet.start(*OURS)
        found = judged(run, f"everything killed, {on_unknown}", since=time.time())
    assert found.figures.get("unknown_accepted", 0) == 0, "what was accepted is found by its statuses"
    if on_unknown == "resend":
        assert found.counts.get("given_up", 0) == 0, found.table
