"""A number of ours, topics and a database of each test's own."""

import secrets
from collections.abc import AsyncIterator

import pytest

from contracts.topics import CONVERSATION_EVENTS, INBOUND_MESSAGES, TOPICS, dead_letter_name
from kafkaio.admin import apply_topics
from kafkaio.producer import Producer
from kafkaio.settings import KafkaSettings
from ledger import numbers
from ledger.pool import Ledger
from tests.integration.conversations.driving import NUMBER, House

NAMES = (INBOUND_MESSAGES.name, dead_letter_name(INBOUND_MESSAGES.name), CONVERSATION_EVENTS.name)


@pytest.fixture
async def house(database_url: str, kafka_bootstrap: str, topic_prefix: str) -> AsyncIterator[House]:
    settings = KafkaSettings(
        bootstrap=kafka_bootstrap, client_id="test", topic_prefix=f"{topic_prefix}{secrets.token_hex(2)}."
    )
    topics = [topic for topic in TOPICS if topic.name in NAMES]
    await apply_topics(settings, partitions_count=4, replication=1, min_insync=1, topics=topics)
    async with Ledger.open(database_url, shard=0) as ledger, Producer.open(settings) as producer:
        await numbers.add(
            ledger, phone_number_id=NUMBER, waba_id="200000000000001", portfolio_id="p1", display="",
            limit_per_s=80, setting_per_s=76, slots_count=4,
        )  # fmt: skip
        yield House(ledger, settings, producer, database_url)
