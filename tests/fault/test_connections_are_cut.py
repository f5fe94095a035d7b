"""Connections to Postgres and to the Graph API are spoilt at the worst moments: the act is done, its answer is lost."""

import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from deploy.local.stack import Endpoints
from tests.fault.disaster import judged, plan_of, sending, until
from tests.proxy import Proxy, Snare, Way, a_proxy, postgres_statement

STATEMENTS = (" claim_rows(", " settle(", " apply_statuses(")
TIMES = {
    Snare.ANSWER_CUT: 3,
    Snare.REQUEST_CUT: 3,
    Snare.ANSWER_HELD: 1,
}  # the last waits for a time-out each
SPRUNG_LIMIT_S = 90.0


def port_of(database_url: str) -> int:
    port = urlsplit(database_url).port
    assert port
    return port


@pytest.mark.timeout(180)
def test_claims_settles_and_flushes_whose_connection_breaks_lose_and_double_nobody(
    stack: Endpoints, tmp_path: Path
) -> None:
    """Each statement: executed and its answer lost, half asked, executed and never answered."""
    with (
        a_proxy(port_of(stack.database_url), postgres_statement) as postgres,
        sending(stack, plan_of(1_600), tmp_path, share=0.05, through={"postgres": postgres}) as run,
    ):
        for snare, times in TIMES.items():
            for statement in STATEMENTS:
                wanted = postgres.counts["sprung"] + times
                postgres.trap(statement, snare, times)
                until(
                    run,
                    lambda n=wanted: postgres.counts["sprung"] >= n,
                    f"{times} of{statement}) to meet {snare.name}",
                    SPRUNG_LIMIT_S,
                )
                print(f"{statement.strip(' (')}: {snare.name} {times} times")
        assert run.standing().state == "running", "the campaign was over before the last of them"
        postgres.reset()
        mended_at = time.time()
        postgres.mend()
        found = judged(run, "Postgres in mid-statement", since=mended_at)
    assert found.figures.get("unknown_accepted", 0) == 0, "what was accepted is found by its statuses"


def answers_lost(graph: Proxy, wanted: int) -> bool:
    return graph.counts["sprung"] >= wanted


@pytest.mark.timeout(180)
def test_messages_whose_answers_are_lost_on_the_way_are_found_by_their_statuses(
    stack: Endpoints, tmp_path: Path
) -> None:
    with (
        a_proxy() as graph,
        sending(stack, plan_of(800), tmp_path, share=0.1, through={"graph": graph}) as run,
    ):
        lost = 0
        for snare in (Snare.ANSWER_CUT, Snare.REQUEST_CUT, Snare.ANSWER_HELD):
            lost += 20
            graph.trap("POST ", snare, 20)
            until(run, lambda n=lost: answers_lost(graph, n), f"20 of {snare.name}", SPRUNG_LIMIT_S)
        graph.half_close(Way.TO_CLIENT)
        graph.reset()
        mended_at = time.time()
        graph.mend()
        found = judged(run, "Graph's answers lost", since=mended_at)
    assert found.figures.get("unknown_accepted", 0) == 0, "what was accepted is found by its statuses"
