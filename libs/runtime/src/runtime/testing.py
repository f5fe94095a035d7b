"""Time that a test holds in its hand: a clock moved by hand, and a loop that never waits."""

import asyncio
import heapq
import itertools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

DEADLOCK_AFTER_S = 1.0  # real seconds that a thread may take to wake a loop that has no timer left


class ManualClock:
    """A `Clock` that stands until `advance`."""

    def __init__(self, boottime: float = 1_000.0, wall: float = 1_796_040_000.0) -> None:
        self._boottime = boottime
        self._wall = wall
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def boottime(self) -> float:
        return self._boottime

    def wall(self) -> float:
        return self._wall

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._boottime + seconds, next(self._order), woken))
        await woken

    @property
    def sleepers_count(self) -> int:
        return sum(not woken.done() for _, _, woken in self._sleepers)

    def advance(self, seconds: float) -> None:
        """Move both clocks and wake, in order, whoever is due; they run when the test next awaits."""
        assert seconds >= 0
        self._boottime += seconds
        self._wall += seconds
        while self._sleepers and self._sleepers[0][0] <= self._boottime:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)

    def step_wall(self, seconds: float) -> None:
        """What NTP does: the wall clock jumps, the other doesn't."""
        self._wall += seconds


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer when nothing is ready. For code without real I/O."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_JumpingSelector(self._jump))

    def time(self) -> float:
        return self._now

    def _jump(self, seconds: float) -> None:
        self._now += seconds


class LoopClock:
    """The `Clock` for code under `run_virtual`: its seconds are the loop's."""

    def __init__(self, wall: float = 1_796_040_000.0) -> None:
        self._wall = wall

    def boottime(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return self._wall + self.boottime()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time. Raises `RuntimeError` when it waits for what can't come."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(main)


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None else DEADLOCK_AFTER_S)
        if not ready and timeout is None:
            raise RuntimeError("deadlock: nothing is ready and no timer is left")
        if not ready and timeout is not None:
            self._jump(max(0.0, timeout))
        return ready
