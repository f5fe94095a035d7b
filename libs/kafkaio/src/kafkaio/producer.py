"""Records to the broker, acknowledged by all replicas, bounded in number, bytes and time.

Invariant: `send` ends within its deadline; what was sent keeps its credit until it resolves or its producer is dropped.
An idempotent producer never gives a batch up and never heals a hole in its sequence, so after a record that is not
acknowledged in time, or fails, the whole producer is dropped and another is built.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain
from random import Random
from typing import Any, Final, Self

from aiokafka import AIOKafkaProducer
from aiokafka.codec import has_lz4
from aiokafka.errors import KafkaError

from backpressure.backoff import backoff_s
from backpressure.window import CreditWindow
from contracts.codec import Envelope, to_headers
from contracts.partition import partition_for
from contracts.topics import RECORD_BYTES_MAX, TOPICS
from kafkaio import metrics
from kafkaio.settings import KafkaSettings
from runtime.background import Background
from runtime.logs import get_logger

Header = tuple[str, bytes]

BATCH_BYTES_MAX: Final = 131_072
CLOSE_S: Final = 5.0
# What the batch (61 bytes) and the record's own lengths and deltas add, and what a header's two lengths add, at most.
_RECORD_OVERHEAD_BYTES: Final = 128
_HEADER_OVERHEAD_BYTES: Final = 10
# What can't be compressed grows: lz4 adds 4 bytes to each block of 64 KiB or less, and a frame of 19.
_COMPRESSION_SHARE: Final = 4096

_BYTES_MAX = {topic.name: topic.bytes_max for topic in TOPICS}
_log = get_logger()


class NotPublished(Exception):
    """No acknowledgement: the record may or may not be on the topic."""


class RecordTooLarge(Exception):
    """The record is above its topic's limit; nothing was sent."""


class ProducerFull(Exception):
    """As many records or bytes as allowed await their acknowledgement; nothing was sent."""


def record_bytes(key: bytes | None, value: bytes, headers: Sequence[Header]) -> int:
    """Return the most that a record takes on the broker, in bytes, even if compression gains nothing."""
    size_bytes = len(value) + _framing_bytes(key, headers)
    return size_bytes + size_bytes // _COMPRESSION_SHARE


def value_bytes_max(topic: str, key: bytes | None, headers: Sequence[Header]) -> int:
    """Return how long a value fits beside key and headers; negative when even these don't."""
    return bytes_max(topic) * _COMPRESSION_SHARE // (_COMPRESSION_SHARE + 1) - _framing_bytes(key, headers)


def _framing_bytes(key: bytes | None, headers: Sequence[Header]) -> int:
    named = sum(len(name.encode()) + len(content) + _HEADER_OVERHEAD_BYTES for name, content in headers)
    return len(key or b"") + named + _RECORD_OVERHEAD_BYTES


def bytes_max(topic: str) -> int:
    """Return the limit of one record of a declared topic, in bytes."""
    return _BYTES_MAX.get(topic, RECORD_BYTES_MAX)


class Producer:
    """One idempotent producer at a time, replaced when it is poisoned. Open it with `Producer.open`."""

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        deadline_s: float,
        linger_s: float,
        credit: CreditWindow,
        rng: Random,
    ) -> None:
        self._settings = settings
        self._deadline_s = deadline_s
        self._linger_s = linger_s
        self._credit = credit
        self._rng = rng
        self._live: AIOKafkaProducer | None = None
        self._lived = asyncio.Event()
        self._died = asyncio.Event()
        self._room = asyncio.Event()
        self._partitions_counts: dict[str, int] = {}
        self._next_partition = rng.randrange(1 << 16)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: KafkaSettings,
        *,
        deadline_s: float = 10.0,
        linger_s: float = 0.0,
        inflight_max: int = 10_000,
        inflight_bytes_max: int = 64 * 1024 * 1024,
        rng: Random | None = None,
    ) -> AsyncIterator[Self]:
        """Keep a producer for the block. The broker may be away: then sends fail at their deadline until it is back.

        At the end, what is under way is waited for, at most `deadline_s` seconds.
        """
        assert inflight_bytes_max >= RECORD_BYTES_MAX, "the largest record must fit the window"
        credit = CreditWindow(requests_max=inflight_max, bytes_max=inflight_bytes_max)
        producer = cls(settings, deadline_s=deadline_s, linger_s=linger_s, credit=credit, rng=rng or Random())
        async with Background() as tasks:
            keeper = tasks.create_task(producer._keep(tasks))
            try:
                yield producer
                await producer._drain()
            finally:
                keeper.cancel()

    @property
    def pending_records(self) -> int:
        """Records sent and neither acknowledged nor given up."""
        return self._credit.requests_in_flight

    @property
    def pending_bytes(self) -> int:
        return self._credit.bytes_in_flight

    @property
    def is_live(self) -> bool:
        """A producer is connected, as far as known."""
        return self._live is not None

    async def partitions_count(self, topic: str) -> int:
        """Return how many partitions the topic has; raises `NotPublished` when the broker doesn't say in time."""
        count = self._partitions_counts.get(topic)
        if count is None:
            try:
                async with asyncio.timeout(self._deadline_s):
                    count = await self._count(await self._living(), topic)
            except (TimeoutError, KafkaError) as error:
                raise NotPublished("the topic's partitions are not known") from error
        return count

    async def send(
        self,
        topic: str,
        *,
        value: bytes,
        key: bytes | None = None,
        partition: int | None = None,
        envelope: Envelope | None = None,
        headers: Sequence[Header] = (),
        wait: bool = True,
    ) -> None:
        """Return when all in-sync replicas have the record.

        Without `partition` the key decides, without a key the next one in turn. With `wait=False` a full window
        raises `ProducerFull` at once, else it is waited for. Raises `RecordTooLarge`, and `NotPublished` after
        `deadline_s` or a failure. A cancelled caller doesn't unsend the record.
        """
        headers = [*(to_headers(envelope) if envelope else ()), *headers]
        size_bytes = record_bytes(key, value, headers)
        if size_bytes > bytes_max(topic):
            raise RecordTooLarge(f"{size_bytes} bytes for {topic}, at most {bytes_max(topic)}")
        deadline = asyncio.get_running_loop().time() + self._deadline_s
        await self._take_credit(size_bytes, wait=wait, deadline=deadline)
        kafka: AIOKafkaProducer | None = None
        acknowledged: asyncio.Future[Any] | None = None
        try:
            async with asyncio.timeout_at(deadline):
                kafka = await self._living()
                if partition is None:
                    partition = self._choose(key, await self._count(kafka, topic))
                acknowledged = await kafka.send(
                    self._settings.topic(topic), value=value, key=key, partition=partition, headers=headers
                )
        except (TimeoutError, KafkaError) as error:
            self._count_failure()
            if kafka is not None and isinstance(error, KafkaError) and not error.retriable:
                self._drop(kafka)
            raise NotPublished("the broker took no record") from error
        finally:
            if acknowledged is None:
                self._return_credit(size_bytes)
        self._watch(kafka, acknowledged, size_bytes, deadline)
        await asyncio.wait(
            [acknowledged]
        )  # unlike awaiting it, this leaves it alone when the caller is cancelled
        if (failure := acknowledged.exception()) is not None:
            self._count_failure()
            raise NotPublished("the broker did not acknowledge") from failure

    # --- credit

    async def _take_credit(self, size_bytes: int, *, wait: bool, deadline: float) -> None:
        if not self._credit.admit(size_bytes):
            if not wait:
                raise ProducerFull("too many records await their acknowledgement")
            try:
                async with asyncio.timeout_at(deadline):
                    await self._wait_for_credit(size_bytes)
            except TimeoutError:
                self._count_failure()
                raise NotPublished("no room before the deadline") from None
        metrics.PRODUCER_PENDING.inc()

    async def _wait_for_credit(self, size_bytes: int) -> None:
        self._room.clear()
        await self._room.wait()
        while not self._credit.admit(size_bytes):
            self._room.clear()
            await self._room.wait()

    def _return_credit(self, size_bytes: int) -> None:
        self._credit.settle(size_bytes)
        self._room.set()
        metrics.PRODUCER_PENDING.dec()

    def _watch(
        self, kafka: AIOKafkaProducer, acknowledged: asyncio.Future[Any], size_bytes: int, deadline: float
    ) -> None:
        """Give the credit back when the record resolves, and see to it that it does, caller or no caller."""
        timer = asyncio.get_running_loop().call_at(deadline, self._drop, kafka)

        def resolved(future: asyncio.Future[Any]) -> None:
            timer.cancel()
            self._return_credit(size_bytes)
            if future.exception() is not None:
                self._drop(kafka)

        acknowledged.add_done_callback(resolved)

    @staticmethod
    def _count_failure() -> None:
        metrics.PRODUCER_FAILURES.inc()

    # --- where to

    def _choose(self, key: bytes | None, partitions_count: int) -> int:
        if key is not None:
            return partition_for(key, partitions_count)
        self._next_partition += 1
        return self._next_partition % partitions_count

    async def _count(self, kafka: AIOKafkaProducer, topic: str) -> int:
        count = self._partitions_counts.get(topic)
        if count is None:
            count = len(await kafka.partitions_for(self._settings.topic(topic)))
            self._partitions_counts[topic] = count
        return count

    # --- the producer of the moment

    async def _living(self) -> AIOKafkaProducer:
        while self._live is None:
            await self._lived.wait()
        return self._live

    async def _keep(self, tasks: asyncio.TaskGroup) -> None:
        attempt = 0
        try:
            while True:
                kafka = await self._start()
                if kafka is None:
                    await asyncio.sleep(backoff_s(attempt, base_s=0.2, cap_s=5.0, rng=self._rng))
                    attempt += 1
                    continue
                attempt = 0
                self._live = kafka
                self._died.clear()
                self._lived.set()
                await self._died.wait()
                metrics.PRODUCER_REBUILDS.inc()
                _log.warning("producer.dropped")
                tasks.create_task(_abandon(kafka))  # beside, so that a stuck one holds nobody up
        finally:
            if self._live is not None:
                await _close(self._live)

    async def _start(self) -> AIOKafkaProducer | None:
        kafka = AIOKafkaProducer(
            bootstrap_servers=self._settings.bootstrap,
            **self._settings.access.arguments(),
            client_id=self._settings.client_id,
            acks="all",
            enable_idempotence=True,
            linger_ms=int(self._linger_s * 1000),
            max_batch_size=BATCH_BYTES_MAX,
            max_request_size=RECORD_BYTES_MAX,
            request_timeout_ms=int(min(15.0, self._deadline_s) * 1000),
            retry_backoff_ms=200,
            metadata_max_age_ms=60_000,
            compression_type="lz4" if has_lz4() else None,
        )
        started = False
        try:
            async with asyncio.timeout(self._deadline_s):
                await kafka.start()
            started = True
        except (KafkaError, OSError, TimeoutError) as error:
            _log.warning("producer.start_failed", error=error)
        finally:
            if not started:
                await _close(kafka)
        return kafka if started else None

    def _drop(self, kafka: AIOKafkaProducer) -> None:
        """Let go of a producer: whatever it still holds resolves now, as not acknowledged."""
        if self._live is not kafka:
            return
        self._live = None
        self._lived.clear()
        self._died.set()
        _fail_pending(kafka)

    async def _drain(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._deadline_s):
                while self.pending_records:
                    self._room.clear()
                    await self._room.wait()


def _fail_pending(kafka: AIOKafkaProducer) -> None:
    """Resolve every record that the producer holds; the library has no public way to give batches up."""
    accumulator = kafka._message_accumulator
    held = [*chain.from_iterable(accumulator._batches.values()), *accumulator._pending_batches]
    accumulator.fail_all(KafkaError("the producer was dropped"))
    accumulator._batches.clear()
    # A request under way still wants to queue its batches again, and fails at that: nobody is left to care.
    if kafka._sender.sender_task is not None:
        kafka._sender.sender_task.remove_done_callback(kafka._sender._fail_all)
    for batch in held:
        waiter = batch._drain_waiter
        if waiter.done() and not waiter.cancelled():
            waiter.exception()  # seen, so that the loop doesn't report it


async def _abandon(kafka: AIOKafkaProducer) -> None:
    """Close a dropped producer within twice `CLOSE_S`. Its own `stop` would flush, and raise what its requests raise."""
    kafka._closed = True
    sending = kafka._sender.sender_task
    sending.cancel()
    with suppress(TimeoutError, KafkaError, OSError):
        async with asyncio.timeout(CLOSE_S):
            await kafka.client.close()
    await asyncio.wait([sending], timeout=CLOSE_S)
    if not sending.done():
        sending.cancel()  # this time what it waits for
    elif not sending.cancelled():
        sending.exception()  # seen, so that the loop doesn't report it


async def _close(kafka: AIOKafkaProducer) -> None:
    """Close within twice `CLOSE_S`, whatever state it is in."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await kafka.stop()
    except (TimeoutError, KafkaError, OSError):
        _fail_pending(kafka)
        with suppress(TimeoutError, KafkaError, OSError):
            async with asyncio.timeout(CLOSE_S):
                await kafka.client.close()
