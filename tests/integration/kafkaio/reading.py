"""Running a runner for the length of a block, waiting for conditions, and reading a topic without our own code."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition

from kafkaio.runner import Runner
from kafkaio.settings import KafkaSettings


async def eventually(condition: Callable[[], bool], limit_s: float = 60.0) -> None:
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def running(*runners: Runner) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for runner in runners:
            tasks.create_task(runner.run(stop))
        try:
            yield
        finally:
            stop.set()


async def everything(settings: KafkaSettings, topic: str) -> list:
    """All records of a topic, raw."""
    async with AIOKafkaConsumer(bootstrap_servers=settings.bootstrap, auto_offset_reset="earliest") as kafka:
        name = settings.topic(topic)
        partitions = [TopicPartition(name, p) for p in kafka.partitions_for_topic(name) or ()]
        if not partitions:
            kafka.assign([TopicPartition(name, 0)])
            await kafka._client.force_metadata_update()
            partitions = [TopicPartition(name, p) for p in kafka.partitions_for_topic(name)]
        kafka.assign(partitions)
        ends = await kafka.end_offsets(partitions)
        found = []
        while len(found) < sum(ends.values()):
            for records in (await kafka.getmany(timeout_ms=500)).values():
                found += records
        return found
