"""The aggregator reports where it stands under the names that every consumer of ours has."""

import asyncio
import random
import urllib.request

import asyncpg
from prometheus_client.parser import text_string_to_metric_families

from contracts.topics import MESSAGE_STATUSES
from deploy.local.process import free_port
from kafkaio.settings import KafkaSettings
from tests.integration.status_aggregator.driving import (
    GROUP,
    T0,
    a_campaign,
    a_status,
    accept,
    aggregating,
    all_committed,
    eventually,
    publish,
)

RECORDS = 6


class Metrics:
    """What `/metrics` of one process says of the group."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/metrics"

    async def value(self, name: str, **labels: str) -> float | None:
        """The sample with the group's label and these; None where there is none."""
        text = await asyncio.to_thread(lambda: urllib.request.urlopen(self._url, timeout=5).read().decode())
        wanted = {"group": GROUP, **labels}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and wanted.items() <= sample.labels.items():
                    return float(sample.value)
        return None

    async def lag(self) -> float | None:
        return await self.value("sluice_consumer_lag_records", topic=MESSAGE_STATUSES.name)

    async def lag_s(self) -> float:
        return await self.value("sluice_consumer_lag_seconds", topic=MESSAGE_STATUSES.name) or 0.0


async def counted(metrics: Metrics, name: str) -> bool:
    """A gauge or counter is set a moment after what it tells of."""
    return await metrics.value(name) == 1


async def test_a_consumer_that_can_not_go_on_shows_its_lag_and_none_when_it_has_caught_up(
    settings: KafkaSettings, database_url: str
) -> None:
    port = free_port(random.Random())
    metrics = Metrics(port)
    async with (
        a_campaign(database_url, RECORDS) as (ledger, campaign_id),
        aggregating(
            settings,
            database_url,
            STATUS_AGGREGATOR_HEALTH_PORT=str(port),
            STATUS_AGGREGATOR_FLUSH_DEADLINE_S="20",
            STATUS_AGGREGATOR_REBALANCE_S="60",
        ) as aggregator,
    ):
        await accept(ledger, campaign_id, range(1, RECORDS + 1))
        statuses = [a_status("sent", seq, T0, campaign_id=campaign_id) for seq in range(1, RECORDS + 1)]
        await publish(settings, [(0, statuses[:1]), (1, b"{")])
        await eventually(lambda: all_committed(settings))
        assert aggregator.is_ready
        assert await metrics.lag() == 0
        assert await metrics.value("sluice_consumer_records_total", disposition="done") == 1
        assert await metrics.value("sluice_consumer_records_total", reason="undecodable") == 1
        await eventually(lambda: counted(metrics, "sluice_consumer_rebalances_total"))
        assert await metrics.value("sluice_consumer_processing_seconds_count") >= 1
        assert await metrics.value("sluice_consumer_batch_size_records_count", trigger="linger") >= 1

        closed = await asyncpg.connect(database_url)
        async with closed.transaction():
            await closed.execute("LOCK TABLE recipient_states IN EXCLUSIVE MODE")
            await publish(settings, [(0, [status]) for status in statuses])

            async def stands_still() -> bool:
                is_aged = (
                    await metrics.lag_s() > 1
                    and await metrics.value("sluice_consumer_commit_age_seconds") > 1
                )
                return is_aged and await metrics.lag() == RECORDS

            await eventually(stands_still, 18)
            assert await metrics.value("sluice_consumer_in_flight_records") == RECORDS
        await closed.close()
        await eventually(lambda: all_committed(settings))

        async def has_caught_up() -> bool:
            return await metrics.lag() == 0 and await metrics.lag_s() == 0

        await eventually(has_caught_up, 5)
