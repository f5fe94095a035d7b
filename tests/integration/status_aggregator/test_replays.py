"""A replay of statuses is applied when it is for this group, and passed by when it is for another."""

from datetime import UTC, datetime, timedelta

from contracts.codec import Envelope, encode, to_headers
from contracts.status import StatusBatch
from contracts.topics import MESSAGE_STATUSES
from kafkaio import deadletter
from kafkaio.consumer import Record
from kafkaio.disposition import DeadLetterReason
from kafkaio.producer import Producer
from kafkaio.settings import KafkaSettings
from tests.integration.admin.serving import an_admin
from tests.integration.kafkaio.reading import everything
from tests.integration.status_aggregator.driving import (
    GROUP,
    T0,
    a_campaign,
    a_status,
    accept,
    aggregating,
    all_committed,
    counters_equal_rows,
    eventually,
    make_topics,
    states,
)

TOPIC = MESSAGE_STATUSES.name


async def set_aside(producer: Producer, value: bytes, *, group: str) -> None:
    envelope = Envelope(event_id="e", event_type="statuses.reported")
    record = Record(
        topic=TOPIC, partition=1, offset=7, key=None, value=value, headers=tuple(to_headers(envelope)),
        envelope=envelope, timestamp_s=0.0,
    )  # fmt: skip
    await deadletter.write(producer, record, group=group, reason=DeadLetterReason.BUG, attempts=1)


async def test_statuses_that_were_set_aside_are_applied_once_however_often_they_are_replayed(
    settings: KafkaSettings, database_url: str
) -> None:
    await make_topics(settings)
    later = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
    async with (
        a_campaign(database_url, 3) as (ledger, campaign_id),
        Producer.open(settings) as producer,
        an_admin(database_url, kafka_bootstrap=settings.bootstrap, topic_prefix=settings.topic_prefix) as (
            _app,
            client,
        ),
        aggregating(settings, database_url) as aggregator,
    ):
        await accept(ledger, campaign_id, [1, 2, 3])
        for seq, group in ((1, GROUP), (2, "another-group")):
            batch = StatusBatch((a_status("delivered", seq, T0 + seq, campaign_id=campaign_id),))
            await set_aside(producer, encode(batch), group=group)
        await eventually(lambda: _is(aggregator.is_ready))

        for again in (False, True):
            order = {"until": later, "again": again, "rate_per_s": 500}
            assert (await client.post("/v1/dead-letters/replay", json=order)).json()["replayed"] == 2
        value = encode(StatusBatch((a_status("delivered", 3, T0 + 3, campaign_id=campaign_id),)))
        await producer.send(TOPIC, value=value, partition=1)  # behind them: when it is applied, they were met
        await eventually(lambda: all_committed(settings))
        found = await states(ledger, campaign_id)
        assert [found[seq][0] for seq in (1, 2, 3)] == ["delivered", "accepted", "delivered"]
        assert found[1][2] == T0 + 1
        assert await counters_equal_rows(ledger, campaign_id)
        passed_by = sum(line.get("replay_for_other_group", 0) for line in aggregator.named("batch.flushed"))
        assert passed_by == 2
    replays = [dict(record.headers).get("replay-for") for record in await everything(settings, TOPIC)]
    assert sorted(replays[:4]) == [b"another-group"] * 2 + [GROUP.encode()] * 2


async def _is(condition: bool) -> bool:
    return condition
