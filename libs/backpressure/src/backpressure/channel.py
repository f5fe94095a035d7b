"""A bounded queue between tasks whose policy says what happens when it is full.

Invariant: never more than `capacity` items; `offered = kept + rejected + dropped` at every instant; what is kept
is delivered exactly once, in order, also after `close`. A cancelled `put`, `get` or `get_batch` has done nothing.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Self, TypeVar, assert_never

T = TypeVar("T")


class Policy(StrEnum):
    """What a full channel does with one item more."""

    BLOCK = "block"  # the producer waits
    REJECT = "reject"  # the producer is told, and still has the item
    DROP_NEWEST = "drop_newest"  # the item is lost
    DROP_OLDEST = "drop_oldest"  # the item is kept, the one that waited longest is lost


class ChannelClosed(Exception):
    """The channel is closed and everything it kept was taken."""


class ChannelEmpty(Exception):
    """Nothing can be taken at this moment."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """`offered = kept + rejected + dropped`, and `kept - depth` were taken; only `depth` ever falls.

    An item is counted once its fate is decided, so a `put` that waits is not offered yet. `rejected`: the policy
    `reject`, a `put_nowait` that would have had to wait, and whatever comes after `close`. `dropped`: lost by a policy;
    under `drop_oldest` the newcomer takes over the place in `kept` of the one that is lost, so `kept` does not move.
    """

    offered: int
    kept: int
    rejected: int
    dropped: int
    depth: int
    depth_max: int


class Channel(Generic[T]):
    """Several producers and consumers, served in the order they came."""

    def __init__(self, capacity: int, policy: Policy) -> None:
        assert capacity > 0
        self._capacity = capacity
        self._policy = policy
        self._items: deque[T] = deque()
        self._closed = False
        # A waiter stays in its queue until it has run, so that nobody overtakes one that was just woken.
        self._putters: deque[asyncio.Future[None]] = deque()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._gatherers: dict[asyncio.Future[None], int] = {}  # → the depth it waits for
        self._kept = 0
        self._rejected = 0
        self._dropped = 0
        self._depth_max = 0

    async def put(self, item: T) -> bool:
        """Offer the item, waiting for room under `block`; True if it is in the channel."""
        while not self._closed and self._must_wait():
            await self._wait_in(self._putters)
            if len(self._items) < self._capacity:
                break  # its turn: those behind it are no reason to wait
        return self._offer(item)

    def put_nowait(self, item: T) -> bool:
        """Offer the item without waiting; True if it is in the channel. A full `block` channel rejects it."""
        if not self._closed and self._must_wait():
            self._rejected += 1
            return False
        return self._offer(item)

    async def get(self) -> T:
        """Take the oldest item, waiting for one; raises ChannelClosed after the last."""
        await self._wait_for_item()
        return self.get_nowait()

    def get_nowait(self) -> T:
        """Take the oldest item; raises ChannelEmpty if there is none now, ChannelClosed if none will come."""
        if not self._items:
            raise ChannelClosed if self._closed else ChannelEmpty
        item = self._items.popleft()
        self._wake()
        return item

    async def get_batch(self, max_items: int, linger_s: float) -> list[T]:
        """Wait for an item, then up to `linger_s` for `max_items` (or the capacity, if less); empty only when closed.

        Items stay in the channel until the batch is complete: cancelling loses none.
        """
        assert max_items > 0
        assert linger_s >= 0
        while True:
            await self._wait_for_item()
            if linger_s > 0:
                await self._gather(min(max_items, self._capacity), linger_s)
            count = min(max_items, len(self._items))
            if count or self._closed:  # else another consumer was faster
                return [self.get_nowait() for _ in range(count)]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            return await self.get()
        except ChannelClosed:
            raise StopAsyncIteration from None

    def close(self) -> None:
        """Take no more items; waiting producers are refused, consumers get what is kept and then the end."""
        self._closed = True
        for waiter in (*self._putters, *self._getters, *self._gatherers):
            _wake(waiter)

    def statistics(self) -> Statistics:
        """The counts since the start and the depth now, consistent with each other."""
        return Statistics(
            offered=self._kept + self._rejected + self._dropped,
            kept=self._kept,
            rejected=self._rejected,
            dropped=self._dropped,
            depth=len(self._items),
            depth_max=self._depth_max,
        )

    def _must_wait(self) -> bool:
        is_full = len(self._items) >= self._capacity
        return self._policy is Policy.BLOCK and (is_full or len(self._putters) > 0)

    def _offer(self, item: T) -> bool:
        if self._closed:
            self._rejected += 1
            return False
        if len(self._items) < self._capacity:
            return self._keep(item)
        match self._policy:
            case Policy.REJECT:
                self._rejected += 1
                return False
            case Policy.DROP_NEWEST:
                self._dropped += 1
                return False
            case Policy.DROP_OLDEST:
                self._items.popleft()
                self._kept -= 1
                self._dropped += 1
                return self._keep(item)
            case Policy.BLOCK:
                raise AssertionError("a producer came in before its turn")
            case _:
                assert_never(self._policy)

    def _keep(self, item: T) -> bool:
        self._items.append(item)
        self._kept += 1
        self._depth_max = max(self._depth_max, len(self._items))
        self._wake()
        return True

    async def _wait_for_item(self) -> None:
        behind_others = len(self._getters) > 0
        while not self._closed and (not self._items or behind_others):
            await self._wait_in(self._getters)
            behind_others = False

    async def _wait_in(self, queue: deque[asyncio.Future[None]]) -> None:
        waiter = asyncio.get_running_loop().create_future()
        queue.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            queue.remove(waiter)
            self._wake()  # it may have been woken already: its turn goes to the next
            raise
        queue.remove(waiter)

    async def _gather(self, depth: int, linger_s: float) -> None:
        if len(self._items) >= depth or self._closed:
            return
        self._wake()  # its turn as a getter is over: one behind it need not wait for the linger
        waiter = asyncio.get_running_loop().create_future()
        self._gatherers[waiter] = depth
        try:
            async with asyncio.timeout(linger_s):
                await waiter
        except TimeoutError:
            pass  # the linger is over: what is there goes
        finally:
            del self._gatherers[waiter]

    def _wake(self) -> None:
        """Wake the first in each queue if it can go on; each that goes on wakes the next."""
        if self._getters and self._items:
            _wake(self._getters[0])
        if self._putters and len(self._items) < self._capacity:
            _wake(self._putters[0])
        for waiter, depth in self._gatherers.items():
            if len(self._items) >= depth:
                _wake(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
