"""The orchestrator's dealings with Kafka: how far the aggregator is, and what it tells of campaigns."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from contracts.campaign import CampaignChanged
from contracts.codec import Envelope, encode, event_id
from contracts.topics import CAMPAIGN_EVENTS, MESSAGE_STATUSES
from kafkaio.admin import committed_offsets, end_offsets
from kafkaio.producer import NotPublished, Producer, ProducerFull
from kafkaio.settings import KafkaSettings
from runtime.logs import get_logger

AGGREGATOR_GROUP = "status-aggregator"
PATIENCE_S = 10.0
log = get_logger()


class StatusTopic:
    """Where message-statuses ends, and up to where the aggregator has committed."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    async def end(self) -> dict[int, int]:
        async with asyncio.timeout(PATIENCE_S):
            return await end_offsets(self._settings, MESSAGE_STATUSES.name)

    async def committed(self) -> dict[int, int]:
        async with asyncio.timeout(PATIENCE_S):
            return await committed_offsets(self._settings, AGGREGATOR_GROUP, MESSAGE_STATUSES.name)


class CampaignTopic:
    """Tells campaigns' changes, at most once: Postgres is the truth."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: KafkaSettings) -> AsyncIterator[Self]:
        async with Producer.open(settings) as producer:
            yield cls(producer)

    async def tell(self, change: CampaignChanged) -> None:
        identity = event_id(str(change.campaign_id), change.state.value, f"{change.at_s:.3f}")
        envelope = Envelope(event_id=identity, event_type="campaign.changed", produced_at_s=change.at_s)
        try:
            await self._producer.send(
                CAMPAIGN_EVENTS.name,
                key=str(change.campaign_id).encode(),
                value=encode(change),
                envelope=envelope,
            )
        except (NotPublished, ProducerFull):
            log.warning("campaign.untold", state=change.state)
