"""A topic with two partitions and its dead letters, of a test's own."""

import secrets

import pytest

from kafkaio.settings import KafkaSettings
from tests.integration.status_aggregator.driving import make_topics


@pytest.fixture
async def settings(kafka_bootstrap: str) -> KafkaSettings:
    settings = KafkaSettings(
        bootstrap=kafka_bootstrap, client_id="test", topic_prefix=f"t{secrets.token_hex(3)}."
    )
    await make_topics(settings)
    return settings
