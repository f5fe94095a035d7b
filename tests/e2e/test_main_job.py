"""The main job through all processes: from the file to the verdict of a judge that imports nothing of ours."""

import json
from pathlib import Path

import pytest

from deploy.local.campaign_run import Plan, Run, Standing, a_run
from deploy.local.demo import FAULTS, JOURNEYS, WEBHOOKS
from deploy.local.fleet import APP_SECRET, TOKEN, VERIFY_TOKEN
from deploy.local.stack import Endpoints
from tests.personal_data import scan


def unseen(_standing: Standing) -> None:
    """Nobody watches a test."""


def unspeakable(run: Run) -> list[str]:
    """What no log may say of this run: names and parameters of people, their texts, tokens and secrets.

    Short words are left out, since they are parts of others.
    """
    people = {
        word for person in run.people if person.expected == "ok" for word in (person.name, person.order)
    }
    texts = {json.loads(line)["text"] for line in (run.folder / "inbound.ndjson").read_text().splitlines()}
    words = {word for word in people | texts if len(word) >= 5}
    assert len(words) > 100
    return [*sorted(words), TOKEN, APP_SECRET, VERIFY_TOKEN]


def offences_in_logs(run: Run) -> list[str]:
    found = []
    forbidden = unspeakable(run)
    for log in sorted(run.fleet.logs.glob("*.log")):
        if log.name.startswith("simulator"):
            continue  # the witness is no part of Sluice
        found += [f"{log.name}: {offence}" for offence in scan(log.read_text(), forbidden=forbidden)]
    return found


@pytest.mark.timeout(480)
def test_a_campaign_leaves_and_comes_back_and_nobody_is_lost_or_doubled(
    stack: Endpoints, tmp_path: Path
) -> None:
    plan = Plan(count=600, seed=11, faults=FAULTS, journeys=JOURNEYS, webhooks=WEBHOOKS, timing_scale=0.25)
    with a_run(stack, plan, tmp_path) as run:
        run.set_up()
        told = run.create_and_import()
        assert "duplicate" in told
        run.launch()
        run.launch()  # starting twice is one start
        run.watch(lambda standing: standing.state == "completed", unseen, 120)
        run.wait_until_quiet()
        code, table = run.judge()
        assert code == 0, table
        assert offences_in_logs(run) == []
        figures = json.loads((tmp_path / "verdict.json").read_text())
        assert figures, "the judge tells what it compared"
