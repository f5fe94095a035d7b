"""The sender's dealings with Kafka: which numbers are its own, what those receive, and the outcomes it tells."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Self

from backpressure.channel import Channel, Policy
from contracts.account import NumberLoad
from contracts.codec import Envelope, Undecodable, decode, encode, event_id
from contracts.send import SendSettled
from contracts.topics import NUMBER_LOAD, SEND_OUTCOMES, SEND_REQUESTS
from kafkaio.admin import topics_fault
from kafkaio.assignment import Assignment
from kafkaio.producer import NotPublished, Producer, ProducerFull
from kafkaio.settings import KafkaSettings
from kafkaio.tail import follow
from runtime.clock import Clock
from runtime.logs import get_logger
from sender.config import Config
from sender.inbound import InboundLoad
from sender.timing import Timing

GROUP = "sender"
WAITING_MAX = 5_000
TELL_S = 2.0
"""How long an outcome is tried to be told, and at the end all that wait."""
log = get_logger()


def settings(config: Config, timing: Timing) -> KafkaSettings:
    return KafkaSettings(
        bootstrap=config.kafka_bootstrap,
        access=config.kafka,
        client_id="sender",
        topic_prefix=config.topic_prefix,
        session_s=timing.session_s,
        heartbeat_s=timing.heartbeat_s,
        rebalance_s=timing.rebalance_s,
    )


@asynccontextmanager
async def open_advice(kafka: KafkaSettings) -> AsyncIterator[Assignment]:
    """Join the group of senders; the partitions of send-requests are the slots of the numbers."""
    async with Assignment.open(kafka, group=GROUP, topic=SEND_REQUESTS.name) as assignment:
        yield assignment


async def topic_fault(kafka: KafkaSettings) -> str:
    """Return what is wrong with the topics that the sender works with; empty when they are right."""
    return await topics_fault(kafka, (SEND_REQUESTS, SEND_OUTCOMES, NUMBER_LOAD))


async def follow_load(kafka: KafkaSettings, load: InboundLoad, clock: Clock) -> None:
    """Note what ingress says that numbers receive, until cancelled."""

    def heard(value: bytes) -> None:
        try:
            total = decode(NumberLoad, value)
        except Undecodable:
            return  # the next one is a quarter of a second away
        load.note(total, now=clock.boottime(), wall_s=clock.wall())

    await follow(kafka, NUMBER_LOAD.name, heard)


class OutcomeTopic:
    """Tells settled sends to whoever wants to know: best effort, the oldest are dropped when Kafka is slow."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._waiting: Channel[SendSettled] = Channel(WAITING_MAX, Policy.DROP_OLDEST)

    @classmethod
    @asynccontextmanager
    async def open(cls, kafka: KafkaSettings) -> AsyncIterator[Self]:
        async with Producer.open(kafka, linger_s=0.02, deadline_s=TELL_S) as producer:
            yield cls(producer)

    def publish(self, settled: Sequence[SendSettled]) -> None:
        for event in settled:
            self._waiting.put_nowait(event)

    def close(self) -> None:
        self._waiting.close()

    async def run(self) -> None:
        while batch := await self._waiting.get_batch(200, 0.05):
            async with asyncio.TaskGroup() as tasks:
                for event in batch:
                    tasks.create_task(self._send(event))

    async def _send(self, event: SendSettled) -> None:
        identity = event_id(event.phone_number_id, event.row, str(event.attempt), event.outcome)
        envelope = Envelope(event_id=identity, event_type="send.settled", produced_at_s=event.settled_at_s)
        try:
            await self._producer.send(
                SEND_OUTCOMES.name, key=event.row.encode(), value=encode(event), envelope=envelope
            )
        except (NotPublished, ProducerFull):
            log.debug("outcome.untold")
