"""What a member knows of its partitions from the moment it gets them until it loses them.

Invariant: a tenure ends once and for all; work that outlives it can settle nothing in the next one.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator

from backpressure.offsets import OffsetLedger
from kafkaio.consumer import Record, TopicPartition


class Tracker:
    """One partition during one tenure: records held back, in work, finished."""

    def __init__(self, span_max: int, now: float) -> None:
        self._ledger = OffsetLedger(span_max)
        self._span_max = span_max
        self._times: dict[int, float] = {}  # of unfinished records, in order
        self.held: deque[Record] = deque()
        """Fetched, but there was no room yet; the partition is paused meanwhile."""
        self.next_offset: int | None = None
        """One past the last record received."""
        self.is_paused = False
        self.moved_at = now
        """When something last happened here: a record came, an attempt ended."""

    def receive(self, records: Iterable[Record], now: float) -> None:
        self.held.extend(records)
        self.next_offset = self.held[-1].offset + 1
        self.moved_at = now

    def begin(self) -> Record:
        """Take the first held record into work; only while there `may_begin` one."""
        record = self.held.popleft()
        self._ledger.begin(record.offset)
        self._times[record.offset] = record.timestamp_s
        return record

    def finish(self, record: Record) -> None:
        self._ledger.finish(record.offset)
        del self._times[record.offset]

    @property
    def may_begin(self) -> bool:
        return bool(self.held) and not self._ledger.is_full

    @property
    def unsettled(self) -> int:
        """Records received and not finished."""
        return len(self.held) + self._ledger.unfinished

    @property
    def oldest_s(self) -> float | None:
        """When the oldest unsettled record was produced, in Unix seconds."""
        oldest = next(iter(self._times.values()), None)
        return self.held[0].timestamp_s if oldest is None and self.held else oldest

    def committable(self) -> int | None:
        return self._ledger.committable()

    def committed(self, offset: int) -> None:
        self._ledger.committed(offset)

    def should_pause(self, *, is_full: bool) -> bool:
        """Pause when the service is full or records are held back; resume when half of the span is free again."""
        if is_full or self.held or self._ledger.is_full:
            return True
        return self.is_paused and self._ledger.span > self._span_max // 2


class Tenure:
    """The partitions of one assignment."""

    def __init__(self, partitions: Iterable[TopicPartition], *, span_max: int, now: float) -> None:
        self.trackers = {at: Tracker(span_max, now) for at in partitions}
        self.ending = asyncio.Event()
        """Set: start nothing more, wait for nothing."""
        self.is_over = False
        """The last commit was made or missed: nothing of this tenure is committed any more."""

    def committable(self) -> dict[TopicPartition, int]:
        """Return the next offset to read of each partition where it has moved."""
        found = ((at, tracker.committable()) for at, tracker in self.trackers.items())
        return {at: offset for at, offset in found if offset is not None}

    def stalled(self, now: float, stall_s: float) -> Iterator[TopicPartition]:
        """Yield the partitions with unsettled records where nothing has happened for `stall_s` seconds."""
        for at, tracker in self.trackers.items():
            if tracker.unsettled and now - tracker.moved_at > stall_s:
                yield at

    def silent(self, now: float, silent_s: float) -> Iterator[TopicPartition]:
        """Yield the partitions with nothing to do that have brought nothing for `silent_s` seconds."""
        for at, tracker in self.trackers.items():
            if not tracker.unsettled and now - tracker.moved_at > silent_s:
                yield at

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until the tenure ends."""
        try:
            async with asyncio.timeout(seconds):
                await self.ending.wait()
        except TimeoutError:
            return
