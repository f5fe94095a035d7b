"""The one place where the time comes from; everything below the edge takes it as an argument."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    def boottime(self) -> float:
        """Seconds that only rise and go on during suspend: for deadlines and durations."""

    def wall(self) -> float:
        """Unix seconds: for what people and other machines read. May jump."""

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clocks. CLOCK_MONOTONIC stops in suspend, so a lease could outlive its owner's idea of it."""

    def boottime(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


SYSTEM_CLOCK: Clock = SystemClock()
