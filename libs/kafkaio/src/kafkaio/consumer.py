"""One member of a consumer group: poll, pause, commit, and the moments at which partitions come and go.

Invariant: nothing is committed but what the caller names, a poll is never cancelled while the member lives on (the
library would stop noticing idle members), and every commit is bounded in time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final, NamedTuple, Self

import aiokafka
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.errors import IllegalStateError, KafkaError
from msgspec import Struct

from backpressure.backoff import backoff_s
from contracts.codec import Envelope, from_headers
from kafkaio.settings import KafkaSettings
from runtime.logs import get_logger

START_S: Final = 60.0
RECORDS_MAX: Final = 500
PARTITION_FETCH_BYTES_MAX: Final = 1024 * 1024
FETCH_BYTES_MAX: Final = 16 * 1024 * 1024

_log = get_logger()


class TopicPartition(NamedTuple):
    """A partition of a declared topic; the name is without the prefix."""

    topic: str
    partition: int


class Record(Struct, frozen=True, kw_only=True):
    """One record as it came; it may hold personal data and prints only where it stands."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    envelope: Envelope
    timestamp_s: float
    """Unix seconds, from the producer."""

    def __repr__(self) -> str:
        return f"Record({self.topic}/{self.partition}@{self.offset})"


def record_of(settings: KafkaSettings, raw: Any) -> Record:
    """Return the library's record as ours."""
    headers = tuple((name, content or b"") for name, content in raw.headers)
    return Record(
        topic=settings.name_of(raw.topic),
        partition=raw.partition,
        offset=raw.offset,
        key=raw.key,
        value=raw.value,
        headers=headers,
        envelope=from_headers(headers),
        timestamp_s=raw.timestamp / 1000,
    )


class Listener(NamedTuple):
    """What to run when partitions come and go. `lost` is awaited before the group gives them to others."""

    lost: Callable[[], Awaitable[None]]
    gained: Callable[[frozenset[TopicPartition]], None]


class Member(ConsumerRebalanceListener):  # type: ignore[misc]  # the library is untyped
    """A member of one group. A rebalance takes all partitions away before it gives any."""

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        group: str,
        topics: Sequence[str],
        listener: Listener,
        assignor: Any,
        rng: Random,
    ) -> None:
        self._settings = settings
        self._group = group
        self._topics = topics
        self._listener = listener
        self._assignor = assignor
        self._rng = rng
        self._kafka: AIOKafkaConsumer = None

    async def start(self, stop: asyncio.Event) -> bool:
        """Join, trying until the broker is there; False when `stop` was set before."""
        attempt = 0
        while not stop.is_set():
            async with asyncio.TaskGroup() as tasks:
                starting = tasks.create_task(self._started())
                stopping = tasks.create_task(stop.wait())
                await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
                starting.cancel()
                stopping.cancel()
            if not starting.cancelled() and starting.result():
                return True
            with suppress(TimeoutError):
                async with asyncio.timeout(backoff_s(attempt, base_s=0.5, cap_s=10.0, rng=self._rng)):
                    await stop.wait()
            attempt += 1
        return False

    async def _started(self) -> bool:
        kafka = AIOKafkaConsumer(
            bootstrap_servers=self._settings.bootstrap,
            **self._settings.access.arguments(),
            client_id=self._settings.client_id,
            group_id=self._settings.group(self._group),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=int(self._settings.session_s * 1000),
            heartbeat_interval_ms=int(self._settings.heartbeat_s * 1000),
            rebalance_timeout_ms=int(self._settings.rebalance_s * 1000),
            request_timeout_ms=int(self._settings.request_s * 1000),
            max_poll_interval_ms=300_000,
            max_partition_fetch_bytes=PARTITION_FETCH_BYTES_MAX,
            fetch_max_bytes=FETCH_BYTES_MAX,
            metadata_max_age_ms=60_000,
            retry_backoff_ms=200,
            partition_assignment_strategy=(self._assignor,),
        )
        kafka.subscribe([self._settings.topic(topic) for topic in self._topics], listener=self)
        self._kafka = kafka
        started = False
        try:
            async with asyncio.timeout(START_S):
                await kafka.start()
            started = True
        except (KafkaError, OSError, TimeoutError) as error:
            _log.warning("consumer.start_failed", group=self._group, error=error)
        finally:
            if not started:
                await self.close(timeout_s=self._settings.commit_s)
        return started

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        await self._listener.lost()

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._listener.gained(frozenset(self._ours(tp) for tp in assigned))

    async def poll(
        self, timeout_s: float, records_max: int = RECORDS_MAX
    ) -> dict[TopicPartition, list[Record]]:
        """Return what has been fetched, waiting at most `timeout_s` for a first record. Don't cancel it.

        Raises what the library can't mend itself (`KafkaError`): then this member is done for.
        """
        try:
            fetched = await self._kafka.getmany(timeout_ms=int(timeout_s * 1000), max_records=records_max)
        except KafkaError as error:
            if not error.retriable:
                raise
            _log.warning("consumer.poll_failed", group=self._group, error=error)
            await asyncio.sleep(timeout_s)
            return {}
        return {
            self._ours(tp): [record_of(self._settings, raw) for raw in raws] for tp, raws in fetched.items()
        }

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch no more from these; what was fetched ahead is fetched again later."""
        with suppress(IllegalStateError):  # taken away meanwhile
            self._kafka.pause(*map(self._theirs, partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        with suppress(IllegalStateError):
            self._kafka.resume(*map(self._theirs, partitions))

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Store the next offsets to read; False when that failed, was refused or took longer than `settings.commit_s`."""
        try:
            async with asyncio.timeout(self._settings.commit_s):
                await self._kafka.commit({self._theirs(at): offset for at, offset in offsets.items()})
        except (KafkaError, TimeoutError) as error:
            _log.warning("consumer.commit_failed", group=self._group, error=error)
            return False
        return True

    def high_water(self, at: TopicPartition) -> int | None:
        """Return the offset behind the partition's last record, as of the last fetch."""
        try:
            found: int | None = self._kafka.highwater(self._theirs(at))
        except (IllegalStateError, AssertionError):
            return None
        return found

    async def unread(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Ask the broker which of these have records behind the position; none when it doesn't say."""
        theirs = [self._theirs(at) for at in partitions]
        try:
            async with asyncio.timeout(self._settings.commit_s):
                ends = await self._kafka.end_offsets(theirs) if theirs else {}
                return {self._ours(at) for at in theirs if ends[at] > await self._kafka.position(at)}
        except (KafkaError, TimeoutError):
            return set()

    @property
    def is_connected(self) -> bool:
        """The member knows its group's coordinator and need not join anew; nothing public tells."""
        coordinator = self._kafka and self._kafka._coordinator
        if not coordinator or coordinator.coordinator_id is None:
            return False
        return not coordinator._rejoin_needed_fut.done()

    async def close(self, timeout_s: float) -> None:
        """Leave the group, within twice `timeout_s`."""
        if self._kafka is None:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._kafka.stop()
        except (KafkaError, OSError, TimeoutError, asyncio.CancelledError) as error:
            # The library cancels its fetches and, if one was backing off, raises that cancellation here as well.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            _log.warning("consumer.close_failed", group=self._group, error=error)
            with suppress(KafkaError, OSError, TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._kafka._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close(timeout_s=self._settings.commit_s)

    def _theirs(self, at: TopicPartition) -> Any:
        return aiokafka.TopicPartition(self._settings.topic(at.topic), at.partition)

    def _ours(self, theirs: Any) -> TopicPartition:
        return TopicPartition(self._settings.name_of(theirs.topic), theirs.partition)
