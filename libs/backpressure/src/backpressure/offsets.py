"""Which position of an ordered log may be committed while its records finish in any order.

Invariant: `committable()` never passes an unfinished record, and at most `span_max` records are remembered.
"""

from collections import deque


class OffsetLedger:
    """The records of one partition from the first unfinished one on; dropped whole when the partition is lost.

    Offsets rise but may leave gaps (compaction, transactions): only those begun are waited for.
    """

    def __init__(self, span_max: int) -> None:
        assert span_max > 0
        self._span_max = span_max
        self._begun: deque[int] = deque()  # in order, from the first unfinished one on
        self._unfinished: set[int] = set()
        self._last = -1
        self._next = 0  # one past the highest contiguous finished offset
        self._committed = 0

    @property
    def unfinished(self) -> int:
        """How many records were begun and not finished."""
        return len(self._unfinished)

    @property
    def span(self) -> int:
        """Offsets from the first unfinished record to the last one begun: what a crash would repeat."""
        return self._last - self._begun[0] + 1 if self._begun else 0

    @property
    def is_full(self) -> bool:
        """The span is used up: begin no more until the oldest record finishes."""
        return self.span >= self._span_max

    def begin(self, offset: int) -> None:
        """Work on the record starts; offsets rise from call to call, and none begins while `is_full`."""
        assert offset > self._last, "offsets of a partition rise"
        assert not self.is_full, "the span is used up"
        self._last = offset
        self._begun.append(offset)
        self._unfinished.add(offset)

    def finish(self, offset: int) -> None:
        """The record's effects are durable; once for each that was begun."""
        assert offset in self._unfinished, "finished a record that is not in work"
        self._unfinished.remove(offset)
        while self._begun and self._begun[0] not in self._unfinished:
            self._next = self._begun.popleft() + 1

    def committable(self) -> int | None:
        """The next offset to read after a restart, or None if nothing is new since `committed`."""
        return self._next if self._next > self._committed else None

    def committed(self, offset: int) -> None:
        """The broker has stored `offset`, one that `committable()` returned."""
        assert offset <= self._next, "committed past an unfinished record"
        self._committed = max(self._committed, offset)
