"""A sender is frozen until another has its number, and wakes: it starts nothing of what it held."""

import re
import time
from pathlib import Path

import pytest

from deploy.local.campaign_run import Number, Run
from deploy.local.stack import Endpoints
from tests.fault.disaster import at, elapse, frozen, judged, plan_of, sending, until

# A limit far above the setting: a second owner beside the first would be seen, not refused.
NUMBERS = tuple(Number(f"10000000000000{n}", limit=160, setting=38) for n in (1, 2))
ROOM = 1.5  # a stall on the way presses arrivals together; two owners would be twice the setting
OWNED = re.compile(r"^sluice_sender_numbers_owned (\S+)$", re.MULTILINE)


def owned_count(run: Run, sender: str) -> int:
    found = OWNED.search(run.fleet.metrics(sender))
    return int(float(found[1])) if found else 0


@pytest.mark.timeout(150)
def test_a_sender_that_wakes_after_its_number_was_taken_sends_nothing_of_what_it_held(
    stack: Endpoints, tmp_path: Path
) -> None:
    """Whether its loop or its watchdog wakes first: the one is fenced, the other ends the process."""
    plan = plan_of(1_000, numbers=NUMBERS)
    with sending(stack, plan, tmp_path, share=0.2, more=("sender-b",)) as run:
        until(
            run,
            lambda: all(owned_count(run, name) == 1 for name in ("sender", "sender-b")),
            "each sender to own a number",
            30.0,
        )
        frozen_at = time.time()
        with frozen(run.fleet.pid("sender")):
            until(run, lambda: owned_count(run, "sender-b") == 2, "the other to take over", at(30, 60))
            taken_at = time.time()
            elapse(run, 2.0)
            woken_at = time.time()
        found = judged(run, "sender frozen", since=woken_at)
    print(f"taken over {taken_at - frozen_at:.1f} s after the freeze")
    for number in NUMBERS:
        assert found.arrived_between(taken_at, woken_at, number.phone_number_id) > 0, "the other sends"
        after = found.arrived_between(woken_at, woken_at + 1.0, number.phone_number_id)
        print(f"{after} starts of a number arrived in the second after waking")
        assert after <= ROOM * number.setting, "the woken one sent beside the new owner"
