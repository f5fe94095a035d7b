"""Following a topic from its end: only what is written from then on is heard, on every partition."""

import asyncio

from kafkaio.producer import Producer
from kafkaio.settings import KafkaSettings
from kafkaio.tail import follow
from tests.integration.kafkaio.conftest import MakeTopic


async def test_what_was_written_before_is_not_heard_and_what_comes_after_is(
    settings: KafkaSettings, make_topic: MakeTopic
) -> None:
    topic = await make_topic("tailed", partitions_count=3)
    heard: list[bytes] = []
    async with Producer.open(settings) as producer, asyncio.timeout(60):
        for partition in range(3):
            await producer.send(topic, value=b"before", partition=partition)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(follow(settings, topic, heard.append))
            while b"probe" not in heard:  # until it has found the end
                await producer.send(topic, value=b"probe", partition=0)
                await asyncio.sleep(0.05)
            for partition in range(3):
                await producer.send(topic, value=b"after %d" % partition, partition=partition)
            while len([value for value in heard if value.startswith(b"after")]) < 3:
                await asyncio.sleep(0.02)
            following.cancel()
    assert b"before" not in heard
    assert sorted(value for value in heard if value != b"probe") == [b"after 0", b"after 1", b"after 2"]


async def test_a_topic_that_comes_later_is_waited_for(settings: KafkaSettings, make_topic: MakeTopic) -> None:
    heard: list[bytes] = []
    async with Producer.open(settings) as producer, asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        following = tasks.create_task(follow(settings, "tailed-later", heard.append))
        await asyncio.sleep(0.2)
        topic = await make_topic("tailed-later")
        while not heard:
            await producer.send(topic, value=b"x", partition=1)
            await asyncio.sleep(0.1)
        following.cancel()
