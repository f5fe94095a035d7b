"""Kafka dies, or stands still, in mid-campaign: sending goes on, and what the webhooks said comes again."""

import time
from pathlib import Path

import pytest

from deploy.local.stack import Stack
from tests.fault.disaster import at, elapse, frozen, judged, plan_of, sending


def redelivered(posts: list[dict[str, object]]) -> int:
    """Statuses that were told more than once although the first time was answered with an error, or not at all."""
    return sum(
        told["posted"] > told["acked"] > 0
        for post in posts
        for told in post["statuses"]  # type: ignore[attr-defined]
    )


@pytest.mark.timeout(150)
def test_with_kafka_killed_sending_goes_on_and_its_statuses_come_later(mortal: Stack, tmp_path: Path) -> None:
    kafka = mortal.kafka
    assert kafka
    with sending(mortal.endpoints, plan_of(1_000), tmp_path, share=0.15) as run:
        killed_at = time.time()
        kafka.kill()
        elapse(run, at(5, 30))
        starting_at = time.time()
        kafka.start()
        found = judged(run, "Kafka killed", since=time.time())
    assert found.arrived_between(killed_at + 1.0, starting_at) > 100, (
        "numbers that have an owner go on sending"
    )
    assert redelivered(found.posts) > 50, "the webhooks of the outage were refused, and came again"


@pytest.mark.timeout(150)
def test_with_kafka_frozen_sending_goes_on_and_its_statuses_come_later(mortal: Stack, tmp_path: Path) -> None:
    """For longer than a session: every consumer has to find its way back."""
    kafka = mortal.kafka
    assert kafka
    with sending(mortal.endpoints, plan_of(1_000), tmp_path, share=0.15) as run:
        frozen_at = time.time()
        with frozen(kafka.pid):
            elapse(run, at(10, 30))
        woken_at = time.time()
        found = judged(run, "Kafka frozen", since=woken_at)
    assert found.arrived_between(frozen_at + 1.0, woken_at) > 300, "numbers that have an owner go on sending"
