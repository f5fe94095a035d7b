"""Statuses as a group commit: what arrives while a partition's record is on its way goes together in the next one.

Invariant: one record a partition is under way at a time, none waits for a timer, and every status settles the ticket
it came with exactly once, when its record is acknowledged or given up.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from contracts.partition import partition_for
from ingress import metrics
from ingress.routing import Status

Publish = Callable[[int, Sequence[Status]], Awaitable[bool]]
"""Publishes statuses as one record of a partition; whether it was acknowledged."""

_AROUND_BYTES = len(b'{"statuses":[]}')


class Ticket:
    """What one webhook waits for.

    `answer` is set to whether all of it was acknowledged, once all of it is settled, or to False when it is abandoned
    before. `when_settled` is called once all of it is settled, abandoned or not.
    """

    __slots__ = ("_open_count", "_published", "_when_settled", "abandoned", "answer")

    def __init__(self, expected_count: int, answer: asyncio.Future[bool]) -> None:
        self._open_count = expected_count
        self._published = True
        self._when_settled: Callable[[], None] | None = None
        self.abandoned = False
        """Nobody waits for it any more: what hasn't left needs not leave, since it will be delivered again."""
        self.answer = answer
        if not expected_count:
            answer.set_result(True)

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Have `callback` called once; at once if all is settled already."""
        assert self._when_settled is None
        if self._open_count:
            self._when_settled = callback
        else:
            callback()

    def settle(self, count: int = 1, *, published: bool) -> None:
        """Account for `count` of the expected items."""
        assert 0 < count <= self._open_count, "settled more than was expected"
        self._open_count -= count
        self._published &= published
        if not self._open_count:
            self._answer(published=self._published)
            if self._when_settled is not None:
                self._when_settled()

    def abandon(self) -> None:
        """Stop waiting: the answer is no, unless it is there already."""
        self.abandoned = True
        self._answer(published=False)

    def _answer(self, *, published: bool) -> None:
        if not self.answer.done():
            self.answer.set_result(published)


class _Waiting(NamedTuple):
    status: Status
    ticket: Ticket


class _Lane:
    """The statuses of one partition that have not left yet."""

    __slots__ = ("is_sending", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Waiting] = deque()
        """Bounded by the in-flight window: each status here holds a part of its webhook's credit."""
        self.is_sending = False


class StatusGather:
    """Takes statuses one by one and publishes them in records of up to `record_bytes_max`."""

    def __init__(
        self, publish: Publish, *, tasks: asyncio.TaskGroup, partitions_count: int, record_bytes_max: int
    ) -> None:
        self._publish = publish
        self._tasks = tasks
        self._record_bytes_max = record_bytes_max
        self._lanes = [_Lane() for _ in range(partitions_count)]

    def put(self, status: Status, ticket: Ticket) -> None:
        """Take one status; its ticket is settled when its record is."""
        partition = partition_for(status.wamid, len(self._lanes))
        lane = self._lanes[partition]
        lane.waiting.append(_Waiting(status, ticket))
        if not lane.is_sending:
            lane.is_sending = True
            self._tasks.create_task(self._send(partition, lane))

    async def _send(self, partition: int, lane: _Lane) -> None:
        while taken := _next_record(lane.waiting, self._record_bytes_max):
            metrics.GATHERED_STATUSES.observe(len(taken))
            published = await self._publish(partition, [one.status for one in taken])
            for one in taken:
                one.ticket.settle(published=published)
        lane.is_sending = False


def _next_record(waiting: deque[_Waiting], bytes_max: int) -> list[_Waiting]:
    """Take the statuses of the next record: at least one, more while they fit; those nobody waits for are given up."""
    taken: list[_Waiting] = []
    size_bytes = _AROUND_BYTES
    while waiting:
        status, ticket = waiting[0]
        if ticket.abandoned:
            waiting.popleft()
            ticket.settle(published=False)
            continue
        size_bytes += len(status.value) + 1
        if taken and size_bytes > bytes_max:
            break
        taken.append(waiting.popleft())
    return taken


def batch_value(statuses: Sequence[Status]) -> bytes:
    """Return the encoded `StatusBatch` of statuses that are encoded already."""
    return b'{"statuses":[' + b",".join([status.value for status in statuses]) + b"]}"
