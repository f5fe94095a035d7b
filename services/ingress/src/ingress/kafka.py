"""The topics that ingress writes: a webhook's records go out, and its ticket tells when all of them are safe.

Invariant: a ticket is settled by acknowledgements alone (or by their certain absence), and records of one key leave one
after the other, so that one contact's messages stand in the order of the webhook.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Self

from contracts.account import NumberLoad
from contracts.codec import Envelope, encode, event_id
from contracts.topics import MESSAGE_STATUSES, NUMBER_LOAD, RECORD_BYTES_MAX, STATUS_RECORD_BYTES_MAX, TOPICS
from ingress import metrics
from ingress.gather import StatusGather, Ticket, batch_value
from ingress.routing import Record, Routed, Status
from kafkaio.access import AWAY
from kafkaio.admin import broker_fault, verify_topics
from kafkaio.producer import NotPublished, Producer, ProducerFull, RecordTooLarge
from kafkaio.settings import KafkaSettings
from runtime.clock import Clock
from runtime.logs import get_logger

CHAINS_MAX = 64
"""Records of one webhook that are under way at once; keys that share a chain wait for each other."""
LOADS_AT_ONCE = 64
VERIFY_S = 30.0
_WRITTEN = [topic for topic in TOPICS if "ingress" in topic.writers]

log = get_logger()


class WebhookTopics:
    """Publishes what webhooks carry. Open it with `WebhookTopics.open`."""

    def __init__(
        self, settings: KafkaSettings, producer: Producer, tasks: asyncio.TaskGroup, clock: Clock
    ) -> None:
        self._settings = settings
        self._producer = producer
        self._tasks = tasks
        self._clock = clock
        self._gather: StatusGather | None = None
        self._are_verified = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: KafkaSettings, *, deadline_s: float, inflight_bytes_max: int, clock: Clock
    ) -> AsyncIterator[Self]:
        """Keep a producer for the block; at the end, what is under way is waited for. The broker may be away."""
        bytes_max = max(inflight_bytes_max, RECORD_BYTES_MAX)
        async with (
            Producer.open(
                settings, deadline_s=deadline_s, linger_s=0.0, inflight_bytes_max=bytes_max
            ) as producer,
            asyncio.TaskGroup() as tasks,
        ):
            yield cls(settings, producer, tasks, clock)

    @property
    def is_live(self) -> bool:
        """The broker is there and the partitions of the statuses are known."""
        return self._gather is not None and self._producer.is_live

    async def fault(self) -> str:
        """Return what is wrong with the broker or with a topic we write, or an empty text.

        Until the partitions of the statuses are known, webhooks with statuses are refused.
        """
        try:
            if self._gather is None:
                self._gather = await self._new_gather()
            if not self._are_verified:
                async with asyncio.timeout(VERIFY_S):
                    mismatches = await verify_topics(self._settings, topics=_WRITTEN)
                if mismatches:
                    one = mismatches[0]
                    return f"{one.topic}: {one.setting} is {one.found}, must be {one.expected}"
                self._are_verified = True
        except (NotPublished, RuntimeError, OSError, TimeoutError):  # the driver's own are RuntimeErrors
            fault = await broker_fault(self._settings)
            return "the broker or a topic is not there" if fault == AWAY else fault
        return "" if self._producer.is_live else "the broker is not there"

    async def _new_gather(self) -> StatusGather:
        return StatusGather(
            self._publish_statuses,
            tasks=self._tasks,
            partitions_count=await self._producer.partitions_count(MESSAGE_STATUSES.name),
            record_bytes_max=STATUS_RECORD_BYTES_MAX,
        )

    def publish(self, routed: Sequence[Routed]) -> Ticket:
        """Begin to publish all of a webhook's items; the ticket's `answer` says whether all were acknowledged."""
        ticket = Ticket(len(routed), asyncio.get_running_loop().create_future())
        chains: dict[int, list[Record]] = {}
        for one in routed:
            if isinstance(one, Record):
                chains.setdefault(hash((one.topic, one.key)) % CHAINS_MAX, []).append(one)
            elif self._gather is None:
                ticket.settle(published=False)
            else:
                self._gather.put(one, ticket)
        for chain in chains.values():
            self._tasks.create_task(self._publish_in_order(chain, ticket))
        return ticket

    async def publish_load(self, loads: Sequence[NumberLoad]) -> None:
        """Tell the senders what their numbers received; what doesn't get through is old by the next time."""
        for start in range(0, len(loads), LOADS_AT_ONCE):
            if not self.is_live:
                return
            async with asyncio.TaskGroup() as tasks:
                for load in loads[start : start + LOADS_AT_ONCE]:
                    tasks.create_task(self._publish_one_load(load))

    async def _publish_one_load(self, load: NumberLoad) -> None:
        key = load.phone_number_id.encode()
        envelope = Envelope(
            event_id=event_id("load", load.counted_by, key, repr(load.until_s)),
            event_type="number.loaded",
            produced_at_s=load.until_s,
        )
        await self._is_acknowledged(
            NUMBER_LOAD.name, value=encode(load), key=key, envelope=envelope, wait=False
        )

    async def _publish_in_order(self, chain: list[Record], ticket: Ticket) -> None:
        for index, record in enumerate(chain):
            published = not ticket.abandoned and await self._is_acknowledged(
                record.topic, value=record.value, key=record.key, envelope=record.envelope
            )
            if not published:  # the rest must not overtake it
                ticket.settle(len(chain) - index, published=False)
                return
            metrics.ITEMS.labels(record.topic).inc()
            ticket.settle(published=True)

    async def _publish_statuses(self, partition: int, statuses: Sequence[Status]) -> bool:
        envelope = Envelope(
            event_id=event_id(*[status.event_id for status in statuses]),
            event_type="statuses.reported",
            produced_at_s=self._clock.wall(),
        )
        published = await self._is_acknowledged(
            MESSAGE_STATUSES.name, value=batch_value(statuses), partition=partition, envelope=envelope
        )
        if published:
            metrics.ITEMS.labels(MESSAGE_STATUSES.name).inc(len(statuses))
        return published

    async def _is_acknowledged(
        self,
        topic: str,
        *,
        value: bytes,
        envelope: Envelope,
        key: bytes | None = None,
        partition: int | None = None,
        wait: bool = True,
    ) -> bool:
        try:
            await self._producer.send(
                topic, value=value, key=key, partition=partition, envelope=envelope, wait=wait
            )
        except (NotPublished, ProducerFull):
            return False
        except RecordTooLarge:
            log.error("record.refused", topic=topic, value_bytes=len(value))
            return False
        return True
