"""Looking at records that stand on topics, outside any group: all between two moments, or the one at a place.

Invariant: no group is joined and nothing is committed. One partition is read at a time, so that what is held is one
fetch; what is written to a partition after its reading began isn't read, so that each reading ends.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, Self

import aiokafka
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from kafkaio.admin import BrokerAway, partitions_of
from kafkaio.consumer import Record, record_of
from kafkaio.deadletter import Place
from kafkaio.settings import KafkaSettings

ANSWER_S: Final = 15.0
STOP_S: Final = 2.0
POLL_MS: Final = 500
FETCH_WAIT_MS: Final = 10
"""At its end, a partition's last fetch waits for more, and the next partition's first one waits for that."""
RECORDS_MAX: Final = 200
FETCH_BYTES_MAX: Final = 1024 * 1024


class Browser:
    """Reads the given topics. Open it with `Browser.open`; one reading at a time."""

    def __init__(
        self, settings: KafkaSettings, kafka: AIOKafkaConsumer, partitions: Mapping[str, list[int]]
    ) -> None:
        self._settings = settings
        self._kafka = kafka
        self._partitions = partitions

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: KafkaSettings, topics: Sequence[str]) -> AsyncIterator[Self]:
        """Connect for the block; topics that don't exist have no records. Raises `BrokerAway`, as all reading does."""
        partitions = await partitions_of(settings, topics)
        kafka = AIOKafkaConsumer(
            bootstrap_servers=settings.bootstrap,
            **settings.access.arguments(),
            client_id=settings.client_id,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",  # where retention was faster than the reader
            request_timeout_ms=int(ANSWER_S * 1000),
            fetch_max_wait_ms=FETCH_WAIT_MS,
            max_partition_fetch_bytes=FETCH_BYTES_MAX,
            fetch_max_bytes=FETCH_BYTES_MAX,
        )
        try:
            with _answered():
                async with asyncio.timeout(ANSWER_S):
                    await kafka.start()
            yield cls(settings, kafka, partitions)
        finally:
            with suppress(KafkaError, OSError, TimeoutError):
                async with asyncio.timeout(STOP_S):
                    await kafka.stop()

    def partitions_count(self, topic: str) -> int:
        """Return how many partitions one of the topics has; 0 when it doesn't exist."""
        return len(self._partitions.get(topic, ()))

    async def records(
        self, topics: Sequence[str], *, since_s: float | None = None, after: Place | None = None
    ) -> AsyncIterator[list[Record]]:
        """Yield what stands on the topics, in the order of topics, partitions and offsets.

        Begins with the first record written at `since_s` (Unix seconds) or later, and behind `after`.
        """
        begun = after is None
        for topic in topics:
            for partition in self._partitions.get(topic, ()):
                here = after is not None and (topic, partition) == after[:2]
                begun = begun or here
                if begun:
                    offset = after.offset + 1 if after is not None and here else 0
                    async for batch in self._read(topic, partition, offset, since_s):
                        yield batch

    async def record(self, place: Place) -> Record | None:
        """Return the one record, or None when there is none (any more)."""
        if place.partition not in self._partitions.get(place.topic, ()):
            return None
        async for batch in self._read(place.topic, place.partition, place.offset, None):
            return batch[0] if batch[0].offset == place.offset else None
        return None

    async def _read(
        self, topic: str, partition: int, offset: int, since_s: float | None
    ) -> AsyncIterator[list[Record]]:
        theirs = aiokafka.TopicPartition(self._settings.topic(topic), partition)
        begin, end = await self._bounds(theirs, offset, since_s)
        if begin >= end:
            return
        self._kafka.assign([theirs])
        self._kafka.seek(theirs, begin)
        position = begin
        while position < end:
            fetched, position = await self._fetched(theirs, position)
            batch = [record_of(self._settings, raw) for raw in fetched if raw.offset < end]
            if batch:
                yield batch

    async def _bounds(self, theirs: Any, offset: int, since_s: float | None) -> tuple[int, int]:
        with _answered():
            async with asyncio.timeout(ANSWER_S):
                end = (await self._kafka.end_offsets([theirs]))[theirs]
                begin = max(offset, (await self._kafka.beginning_offsets([theirs]))[theirs])
                if since_s is not None and begin < end:
                    found = (await self._kafka.offsets_for_times({theirs: int(since_s * 1000)}))[theirs]
                    begin = end if found is None else max(begin, found.offset)
        return begin, end

    async def _fetched(self, theirs: Any, position: int) -> tuple[list[Any], int]:
        """Return the next records and the position behind them: also behind what isn't a record (markers, gaps)."""
        fetched: list[Any] = []
        behind = position
        with _answered():
            async with asyncio.timeout(ANSWER_S):
                while behind <= position:
                    found = await self._kafka.getmany(theirs, timeout_ms=POLL_MS, max_records=RECORDS_MAX)
                    fetched = found.get(theirs, [])
                    behind = await self._kafka.position(theirs)
        return fetched, behind


@contextmanager
def _answered() -> Iterator[None]:
    try:
        yield
    except (KafkaError, OSError, TimeoutError) as error:
        raise BrokerAway(type(error).__name__) from error
