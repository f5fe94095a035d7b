"""The loop that never waits."""

import asyncio
import time

import pytest

from runtime import testing
from runtime.testing import LoopClock, run_virtual


def test_an_hour_of_timers_passes_at_once() -> None:
    async def hour() -> tuple[int, float]:
        loop = asyncio.get_running_loop()
        ticks = 0
        while loop.time() < 3_600.0:
            await asyncio.sleep(1.0)
            ticks += 1
        return ticks, loop.time()

    began = time.perf_counter()
    ticks, ended = run_virtual(hour())
    assert ticks == 3_600
    assert ended == pytest.approx(3_600.0)
    assert time.perf_counter() - began < 5.0


def test_timers_fire_in_order_at_their_times() -> None:
    async def three() -> list[tuple[str, float]]:
        clock = LoopClock(wall=1_000.0)
        seen: list[tuple[str, float]] = []

        async def at(name: str, seconds: float) -> None:
            await clock.sleep(seconds)
            seen.append((name, clock.wall()))

        async with asyncio.TaskGroup() as group:
            for name, seconds in (("c", 90_000.0), ("a", 1.0), ("b", 60.0)):
                group.create_task(at(name, seconds))
        return seen

    seen = run_virtual(three())
    assert [name for name, _ in seen] == ["a", "b", "c"]
    assert [when for _, when in seen] == pytest.approx([1_001.0, 1_060.0, 91_000.0])


def test_a_timeout_expires_in_virtual_time() -> None:
    async def wait() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(600.0):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run_virtual(wait()) == pytest.approx(600.0)


def test_waiting_for_what_can_not_come_is_an_error_and_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "DEADLOCK_AFTER_S", 0.05)

    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="deadlock"):
        run_virtual(wait())


def test_a_thread_may_wake_the_loop() -> None:
    async def ask() -> int:
        return await asyncio.to_thread(lambda: 7)

    assert run_virtual(ask()) == 7
