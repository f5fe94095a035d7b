"""Kafka is there, but not to be reached, or not to be heard: sending goes on, and each webhook has its effect once."""

import itertools
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deploy.local.kafka_server import Kafka
from deploy.local.stack import DATA_DIR, Endpoints, open_stack
from ingress.config import Config
from tests.fault.disaster import NUMBERS, Aftermath, at, elapse, judged, plan_of, sending
from tests.fault.webhooks import Item, a_text, posting, values_on
from tests.proxy import Proxy, Way, a_proxy

CUT_S = at(5, 30)
DELAY_S = at(10, 40)  # well beyond ingress' deadline
DELAYED_S = at(6, 15)
DEADLINE_S = next(field.default for field in msgspec.structs.fields(Config) if field.name == "deadline_s")
ALLOWANCE_S = 4.0  # two cores carry a whole fleet


@dataclass(frozen=True)
class Reached:
    """A stack whose Kafka the services reach through a proxy alone; the judge reaches it directly."""

    endpoints: Endpoints
    kafka: Kafka
    proxy: Proxy


@pytest.fixture(scope="module")
def reached() -> Iterator[Reached]:
    folder = DATA_DIR / f"test-{os.getpid()}-{secrets.token_hex(3)}"
    try:
        with a_proxy() as proxy, open_stack(folder, kafka_advertised_port=proxy.port) as stack:
            assert stack.kafka
            proxy.server_port = stack.kafka.proxied_port
            yield Reached(stack.endpoints, stack.kafka, proxy)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def redelivered(found: Aftermath) -> int:
    """Statuses told more than once although the first time was not answered with 200."""
    return sum(told["posted"] > told["acked"] > 0 for post in found.posts for told in post["statuses"])


def texts() -> Iterator[Item]:
    for n in itertools.count():
        yield a_text(NUMBERS[0].phone_number_id, n, sender=f"44770090{n % 40:04}")


def effects_of(posted: Iterable[str], events: Iterable[Any]) -> dict[str, set[tuple[str, int]]]:
    """The event id and the contact's turn of each posted text, as told.

    An event whose acknowledgement was lost is told again; a text that was handled again would take another turn.
    """
    effects: dict[str, set[tuple[str, int]]] = {}
    for event in events:
        if event["wamid"] in posted:
            effects.setdefault(event["wamid"], set()).add((event["event_id"], event["turn"]))
    return effects


@pytest.mark.bco("J04")
@pytest.mark.timeout(180)
def test_kafka_cut_off_and_then_its_acknowledgements_late_bco_j04(reached: Reached, tmp_path: Path) -> None:
    """A record whose acknowledgement is late was appended: what Meta is refused for comes again, with one effect.

    No request waits longer than ingress' deadline for its answer, and the same body is taken in the end.
    """
    proxy = reached.proxy
    with sending(reached.endpoints, plan_of(1_200), tmp_path, share=0.1, through={"kafka": proxy}) as run:
        cut_at = time.time()
        proxy.cut()
        elapse(run, CUT_S)
        mended_at = time.time()
        proxy.mend()
        elapse(run, 3.0)
        with posting(run.fleet.webhook_url, texts(), connections=10, pause_s=0.2) as account:
            elapse(run, 1.0)
            proxy.delay(to_client_s=DELAY_S)
            elapse(run, DELAYED_S)
            proxy.hang(Way.TO_CLIENT)
            elapse(run, 1.0)
            proxy.reset()  # what was acknowledged meanwhile will never be heard
            since = time.time()
            proxy.mend()
        found = judged(run, "Kafka cut off, then late", since=since)
        effects = effects_of(
            account.posted,
            values_on(
                reached.endpoints.kafka_bootstrap, run.fleet.setup.topic_prefix + "conversation-events"
            ),
        )
    print(f"answers {dict(account.answers)}, the slowest after {account.slowest_s:.1f} s")
    assert account.slowest_s <= DEADLINE_S + ALLOWANCE_S, "a request waited beyond ingress' deadline"
    assert account.answers.keys() == {200, 503}, "each request was answered, some with a refusal"
    assert effects.keys() == account.acknowledged == set(account.posted)
    assert {wamid: told for wamid, told in effects.items() if len(told) > 1} == {}, "handled more than once"
    assert found.arrived_between(cut_at + 1.0, mended_at) > 100, "numbers that have an owner go on sending"
    assert redelivered(found) > 50, "the webhooks of those seconds were refused, and came again"


@pytest.mark.bco("J06")
@pytest.mark.timeout(180)
def test_after_restarts_of_kafka_every_consumer_goes_on_by_itself_bco_j06(
    reached: Reached, tmp_path: Path
) -> None:
    with sending(
        reached.endpoints, plan_of(1_200), tmp_path, share=0.05, through={"kafka": reached.proxy}
    ) as run:
        for _ in range(at(2, 5)):
            reached.kafka.stop()
            reached.kafka.start()
            elapse(run, 0.5)
        found = judged(run, "restarts of Kafka", since=time.time())
    assert found.counts.get("given_up", 0) == 0, "no sender died: each row's end is known"
