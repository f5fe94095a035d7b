"""Settings with short times, and topics of a test's own."""

from collections.abc import Awaitable, Callable

import pytest

from contracts.topics import Topic, dead_letter_name
from kafkaio.admin import apply_topics
from kafkaio.settings import KafkaSettings

MakeTopic = Callable[..., Awaitable[str]]


@pytest.fixture
def settings(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    return KafkaSettings(
        bootstrap=kafka_bootstrap,
        client_id="test",
        topic_prefix=topic_prefix,
        session_s=6.0,
        heartbeat_s=0.3,
        rebalance_s=6.0,
    )


@pytest.fixture
def make_topic(settings: KafkaSettings) -> MakeTopic:
    """Make a topic and its dead letters; returns the name."""

    async def make(name: str, partitions_count: int = 2) -> str:
        topics = [
            Topic(name=each, key="", value=None, retention_s=3600, writers=(), readers=(), ordering="")
            for each in (name, dead_letter_name(name))
        ]
        await apply_topics(
            settings, partitions_count=partitions_count, replication=1, min_insync=1, topics=topics
        )
        return name

    return make
