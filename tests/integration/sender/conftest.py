"""What the sender's tests share: its topics on the real Kafka, and its settings."""

from collections.abc import Callable

import pytest

from contracts.topics import TOPICS
from deploy.local.stack import in_thread
from kafkaio.admin import apply_topics
from kafkaio.settings import KafkaSettings
from tests.integration.sender.driving import environment

SettingsFor = Callable[..., dict[str, str]]


@pytest.fixture(scope="module")
def applied_prefix(kafka_bootstrap: str, topic_prefix: str) -> str:
    """The prefix of topics that are there."""
    settings = KafkaSettings(bootstrap=kafka_bootstrap, client_id="test", topic_prefix=topic_prefix)
    used = [topic for topic in TOPICS if topic.name in ("send-requests", "send-outcomes", "number-load")]
    in_thread(apply_topics(settings, partitions_count=4, replication=1, min_insync=1, topics=used))
    return topic_prefix


@pytest.fixture
def settings_for(kafka_bootstrap: str, database_url: str, applied_prefix: str) -> SettingsFor:
    """`settings_for(graph_url, **more)`: the environment of a sender that works on this test's database."""

    def settings(url: str, **more: object) -> dict[str, str]:
        return environment(url, database_url, kafka_bootstrap, applied_prefix, **more)

    return settings
