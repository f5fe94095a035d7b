"""The system's clocks and the one that stands still."""

import asyncio
import time

from runtime.clock import SYSTEM_CLOCK
from runtime.testing import ManualClock


def test_the_system_clock_reads_boottime_and_unix_time() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= SYSTEM_CLOCK.boottime() <= time.clock_gettime(time.CLOCK_BOOTTIME)
    assert abs(SYSTEM_CLOCK.wall() - time.time()) < 5


async def test_a_manual_clock_wakes_sleepers_in_order_and_only_when_due() -> None:
    clock = ManualClock(boottime=10.0, wall=100.0)
    woken: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("late", 5.0))
        group.create_task(sleeper("early", 2.0))
        group.create_task(sleeper("now", 0.0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert woken == ["now"]
        assert clock.sleepers_count == 2
        clock.advance(1.9)
        await asyncio.sleep(0)
        assert woken == ["now"]
        clock.advance(10.0)
    assert woken == ["now", "early", "late"]
    assert (clock.boottime(), clock.wall()) == (21.9, 111.9)


async def test_a_step_of_the_wall_clock_wakes_nobody() -> None:
    clock = ManualClock(boottime=10.0, wall=100.0)
    clock.step_wall(-50.0)
    assert (clock.boottime(), clock.wall()) == (10.0, 50.0)


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = ManualClock()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(clock.sleep(3.0))
        await asyncio.sleep(0)
        task.cancel()
    assert clock.sleepers_count == 0
    clock.advance(5.0)
