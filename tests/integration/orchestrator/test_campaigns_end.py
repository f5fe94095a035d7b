"""The orchestrator on the real Postgres and Kafka: what nobody works on is brought to its end, by one leader."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from contracts.campaign import CampaignState, OnUnknown, Reason, RecipientState
from contracts.topics import MESSAGE_STATUSES
from kafkaio.admin import apply_topics
from kafkaio.producer import Producer
from kafkaio.settings import KafkaSettings
from ledger import campaigns, leases, recipients, statuses
from ledger.pool import Ledger
from ledger.recipients import Settlement
from orchestrator.app import open_app
from orchestrator.config import Config
from runtime.config import Secret
from tests.integration.ledger.campaigns_for_tests import (
    a_running_campaign,
    claim,
    counters_equal_rows,
    status,
)

DEADLINE_S = 60.0


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await condition():
            await asyncio.sleep(0.05)


@pytest.fixture
async def kafka(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    settings = KafkaSettings(
        bootstrap=kafka_bootstrap, client_id="test", topic_prefix=topic_prefix + uuid4().hex[:6]
    )
    await apply_topics(settings, partitions_count=2, replication=1, min_insync=1)
    return settings


@asynccontextmanager
async def an_orchestrator(
    database_url: str, kafka: KafkaSettings, *, patience_s: float = 60.0
) -> AsyncIterator[None]:
    config = Config(
        kafka_bootstrap=kafka.bootstrap,
        database_url=Secret(database_url),
        topic_prefix=kafka.topic_prefix,
        look_every_s=0.1,
        lease_s=2.0,
        settle_s=0.5,
        patience_s=patience_s,
    )
    stop = asyncio.Event()
    async with open_app(config) as app, asyncio.TaskGroup() as tasks:
        tasks.create_task(app.run(stop))
        try:
            yield
        finally:
            stop.set()


async def test_an_abandoned_claim_under_give_up_ends_given_up_and_the_campaign_completes(
    database_url: str, kafka: KafkaSettings
) -> None:
    async with a_running_campaign(database_url, size=3) as (ledger, campaign_id, epoch):
        await claim(ledger, campaign_id, epoch, 3)
        async with an_orchestrator(database_url, kafka):
            await until(lambda: _is(ledger, campaign_id, CampaignState.COMPLETED))
        counts = await counters_equal_rows(ledger, campaign_id)
        assert counts[RecipientState.GIVEN_UP] == 3
        assert {reason for _, reason, _, _ in await campaigns.reasons(ledger, campaign_id)} == {"silent"}


async def test_a_cancelled_campaign_keeps_no_open_row(database_url: str, kafka: KafkaSettings) -> None:
    async with a_running_campaign(database_url, size=5) as (ledger, campaign_id, epoch):
        await claim(ledger, campaign_id, epoch, 1)
        await recipients.settle(
            ledger,
            [Settlement(campaign_id=campaign_id, seq=1, attempt=1, kind="unknown", reason=Reason.NO_ANSWER)],
            finished_claims=[],
        )
        await campaigns.move(ledger, campaign_id, CampaignState.CANCELLED, actor="test")
        async with an_orchestrator(database_url, kafka):
            await until(
                lambda: _counts(
                    ledger, campaign_id, {RecipientState.CANCELLED: 4, RecipientState.GIVEN_UP: 1}
                )
            )
        await counters_equal_rows(ledger, campaign_id)


async def test_rows_past_their_validity_expire(database_url: str, kafka: KafkaSettings) -> None:
    async with a_running_campaign(database_url, size=4) as (ledger, campaign_id, _epoch):
        await ledger.run("age", "UPDATE campaigns SET valid_until = clock_timestamp()")
        async with an_orchestrator(database_url, kafka):
            await until(lambda: _is(ledger, campaign_id, CampaignState.COMPLETED))
        assert (await counters_equal_rows(ledger, campaign_id))[RecipientState.EXPIRED] == 4


async def test_a_resend_waits_until_the_aggregator_is_past_the_statuses_that_were_there(
    database_url: str, kafka: KafkaSettings
) -> None:
    """Two proofs are needed: a status of a later start, and an aggregator that has seen all there was."""
    async with a_running_campaign(database_url, size=3, on_unknown=OnUnknown.RESEND) as (
        ledger,
        campaign_id,
        epoch,
    ):
        await claim(ledger, campaign_id, epoch, 1)
        await recipients.reclaim(ledger)
        await claim(ledger, campaign_id, epoch, 1)
        await statuses.apply(ledger, [status(campaign_id, 2, sent_s=1_000)])
        async with Producer.open(kafka) as producer:
            await producer.send(MESSAGE_STATUSES.name, value=b'{"statuses":[]}', partition=1)
        async with an_orchestrator(database_url, kafka):
            await until(lambda: _noted(ledger))
            await asyncio.sleep(1.0)  # long enough for several rounds: still nothing is due
            assert await ledger.value("due", "SELECT count(*) FROM due") == 0
            await _commit_all(kafka)
            await until(lambda: _due(ledger, 1))
        again = await claim(ledger, campaign_id, epoch, 2)
        assert [(row.seq, row.attempt) for row in again.rows] == [(1, 2), (3, 1)]


async def test_a_resend_without_proof_ends_given_up_and_says_why(
    database_url: str, kafka: KafkaSettings
) -> None:
    async with a_running_campaign(database_url, size=1, on_unknown=OnUnknown.RESEND) as (
        ledger,
        campaign_id,
        epoch,
    ):
        await claim(ledger, campaign_id, epoch, 1)
        async with an_orchestrator(database_url, kafka, patience_s=1.0):
            await until(lambda: _is(ledger, campaign_id, CampaignState.COMPLETED))
        reasons = await campaigns.reasons(ledger, campaign_id)
        assert [(state, reason) for state, reason, _, _ in reasons] == [
            (RecipientState.GIVEN_UP, "no_later_status")
        ]


async def test_one_of_two_leads_and_the_other_takes_over(database_url: str) -> None:
    async with Ledger.open(database_url, shard=1) as ledger:
        one, other = uuid4(), uuid4()
        assert await leases.lead(ledger, role="orchestrator", owner=one, lease_s=30)
        assert not await leases.lead(ledger, role="orchestrator", owner=other, lease_s=30)
        assert await leases.lead(ledger, role="orchestrator", owner=one, lease_s=30)
        await leases.resign(ledger, role="orchestrator", owner=one)
        assert await leases.lead(ledger, role="orchestrator", owner=other, lease_s=0.05)
        await until(lambda: leases.lead(ledger, role="orchestrator", owner=one, lease_s=30))


async def _is(ledger: Ledger, campaign_id: int, state: CampaignState) -> bool:
    campaign = await campaigns.find(ledger, campaign_id)
    return campaign is not None and campaign.state is state


async def _counts(ledger: Ledger, campaign_id: int, wanted: dict[RecipientState, int]) -> bool:
    counts = await campaigns.counts(ledger, campaign_id)
    return all(counts[state] == n for state, n in wanted.items())


async def _noted(ledger: Ledger) -> bool:
    return bool(await ledger.value("notes", "SELECT count(*) = 1 FROM status_notes WHERE reached_at IS NULL"))


async def _due(ledger: Ledger, count: int) -> bool:
    return bool(await ledger.value("due", "SELECT count(*) = $1 FROM due", count))


async def _commit_all(kafka: KafkaSettings) -> None:
    """Commit the ends of message-statuses for the aggregator's group, as the aggregator would."""
    from confluent_kafka import Consumer, TopicPartition

    def commit() -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": kafka.group("status-aggregator"),
                "enable.auto.commit": False,
            }
        )
        name = kafka.topic(MESSAGE_STATUSES.name)
        ends = [
            TopicPartition(name, p, consumer.get_watermark_offsets(TopicPartition(name, p), timeout=10)[1])
            for p in range(2)
        ]
        consumer.commit(offsets=ends, asynchronous=False)
        consumer.close()

    await asyncio.to_thread(commit)
