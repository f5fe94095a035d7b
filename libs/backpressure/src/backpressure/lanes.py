"""Serial per key, parallel across keys: what a partition holds runs wider than the partition, order intact.

Invariant: never two works of one key at once, one key's works in the order they were submitted, and never more
than `capacity` works held or `concurrency` running.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import Self

Work = Callable[[], Awaitable[None]]

# Works that never wait would keep the loop to themselves: after so many a worker lets others run.
TURNS_PER_YIELD = 16


class Lanes:
    """A lane per active key, gone when it is empty; workers take the waiting lanes in turn, one work a turn.

    So a hot key holds back neither the others nor more than its own lane. A worker is a task that lives while
    lanes wait: at most `concurrency` tasks, whatever the number of keys.

    Works are expected not to raise. One that does is a bug: the task group cancels the others and leaving the
    block raises an ExceptionGroup. Leaving it normally first finishes all that was accepted, however long that takes:
    bound it from outside with `drop_queued` and `wait_idle`, or by cancelling.
    """

    def __init__(self, capacity: int, per_key_max: int, concurrency: int) -> None:
        assert capacity > 0
        assert per_key_max > 0
        assert concurrency > 0
        self._capacity = capacity
        self._per_key_max = per_key_max
        self._concurrency = concurrency
        self._group = asyncio.TaskGroup()
        self._lanes: dict[Hashable, deque[Work]] = {}  # a lane's head stays in it while it runs
        self._waiting: deque[Hashable] = deque()  # the keys whose head does not run yet
        self._held = 0
        self._workers = 0
        self._is_open = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        await self._group.__aexit__(kind, error, trace)

    @property
    def in_flight(self) -> int:
        """Works running now."""
        return len(self._lanes) - len(self._waiting)

    @property
    def queued(self) -> int:
        """Works accepted and not started."""
        return self._held - self.in_flight

    def submit(self, key: Hashable, work: Work) -> bool:
        """Accept the work behind those of its key, or return False: full (or closed), so pause and offer it again.

        Full means `capacity` works held in all, or `per_key_max` of this key, the running ones included.
        """
        if not self._is_open or self._held >= self._capacity:
            return False
        lane = self._lanes.get(key)
        if lane is None:
            self._lanes[key] = deque((work,))
            self._waiting.append(key)
            self._add_worker()
        elif len(lane) < self._per_key_max:
            lane.append(work)
        else:
            return False
        self._held += 1
        self._idle.clear()
        return True

    def drop_queued(self) -> int:
        """Forget all works that have not started, and return how many; running ones go on."""
        held = self._held
        for key in self._waiting:
            self._held -= len(self._lanes.pop(key))
        self._waiting.clear()
        for lane in self._lanes.values():
            while len(lane) > 1:
                lane.pop()
                self._held -= 1
        self._note_idle()
        return held - self._held

    async def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing runs or waits; False if that took longer than `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def _add_worker(self) -> None:
        if self._workers < self._concurrency:
            self._workers += 1
            self._group.create_task(self._serve())

    async def _serve(self) -> None:
        turns = 0
        try:
            while self._waiting:
                await self._run_next()
                turns += 1
                if turns % TURNS_PER_YIELD == 0:
                    await asyncio.sleep(0)
        except BaseException as error:
            self._is_open = False  # the group is going down: it takes no more tasks
            if isinstance(error, asyncio.CancelledError) and not _is_being_cancelled():
                # From inside the work. A task group takes no notice of it, and the lane would stand still unseen.
                raise RuntimeError("a work was cancelled from within") from error
            raise
        finally:
            self._workers -= 1

    async def _run_next(self) -> None:
        key = self._waiting.popleft()
        lane = self._lanes[key]
        await lane[0]()
        lane.popleft()
        self._held -= 1
        if lane:
            self._waiting.append(key)
        else:
            del self._lanes[key]
            self._note_idle()

    def _note_idle(self) -> None:
        if self._held == 0:
            self._idle.set()


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
