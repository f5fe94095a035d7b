"""Topics are created as declared, and every difference is named."""

import msgspec
import pytest

from contracts.topics import TOPICS
from kafkaio.admin import BrokerAway, Mismatch, apply_topics, end_offsets, verify_topics
from kafkaio.producer import Producer


async def test_topics_are_created_once_and_verified_setting_by_setting(settings):
    wanted = {"partitions_count": 2, "replication": 1, "min_insync": 1}
    absent = await verify_topics(settings)
    assert {(each.topic, each.setting) for each in absent} == {(topic.name, "exists") for topic in TOPICS}
    lines = await apply_topics(settings, **wanted)
    assert lines[0] == "inbound-messages: created, 2 partitions"
    assert await apply_topics(settings, **wanted) == [f"{topic.name}: exists" for topic in TOPICS]
    assert await verify_topics(settings, **wanted) == []
    assert await verify_topics(settings) == []

    other = msgspec.structs.replace(TOPICS[0], retention_s=60)
    found = await verify_topics(settings, partitions_count=3, replication=2, min_insync=2, topics=[other])
    assert found == [
        Mismatch(other.name, "partitions", "3", "2"),
        Mismatch(other.name, "replication", "2", "1"),
        Mismatch(other.name, "retention.ms", "60000", "604800000"),
        Mismatch(other.name, "min.insync.replicas", "2", "1"),
    ]


async def test_end_offsets_count_the_records(settings, make_topic):
    topic = await make_topic("ends", 2)
    async with Producer.open(settings) as producer:
        await producer.send(topic, value=b"x", partition=1)
    assert await end_offsets(settings, topic) == {0: 0, 1: 1}


async def test_a_broker_that_is_away_is_named_so(settings):
    away = msgspec.structs.replace(settings, bootstrap="127.0.0.1:1")
    with pytest.raises(BrokerAway):
        await verify_topics(away)
    with pytest.raises(BrokerAway):
        await end_offsets(away, "any")
