"""A loop that stands still is fenced, then ended."""

import asyncio
import threading
import time

import pytest

from runtime import metrics, watchdog
from runtime.testing import ManualClock
from runtime.watchdog import Watchdog


def a_watchdog(clock: ManualClock, calls: list[str]) -> Watchdog:
    return Watchdog(
        fence_after_s=2.0,
        exit_after_s=8.0,
        on_fence=lambda: calls.append("fence"),
        clock=clock,
        end_process=lambda code: calls.append(f"exit {code}"),
    )


def test_a_silence_up_to_the_limit_changes_nothing() -> None:
    clock, calls = ManualClock(), []
    dog = a_watchdog(clock, calls)
    clock.advance(2.0)
    dog.check()
    assert not dog.fenced
    assert calls == []


def test_a_longer_silence_fences_once_and_a_beat_does_not_lift_it() -> None:
    clock, calls = ManualClock(), []
    dog = a_watchdog(clock, calls)
    before = metrics.LOOP_FENCED._value.get()
    clock.advance(2.1)
    dog.check()
    clock.advance(1.0)
    dog.check()
    dog.beat()
    assert dog.fenced
    assert calls == ["fence"]
    assert metrics.LOOP_FENCED._value.get() == before + 1
    dog.unfence()
    dog.check()
    assert not dog.fenced


def test_a_silence_past_the_last_limit_ends_the_process() -> None:
    clock, calls = ManualClock(), []
    dog = a_watchdog(clock, calls)
    clock.advance(8.1)
    dog.check()
    assert calls == ["exit 75"]


def test_a_silence_that_the_thread_slept_through_fences_at_the_next_beat() -> None:
    clock, calls = ManualClock(), []
    dog = a_watchdog(clock, calls)
    clock.advance(60.0)
    dog.beat()
    assert dog.fenced
    assert calls == ["fence"]


def test_the_limits_must_be_in_order() -> None:
    with pytest.raises(AssertionError):
        Watchdog(fence_after_s=2.0, exit_after_s=2.0)


async def test_a_blocked_loop_is_fenced_while_it_is_blocked_and_a_busy_one_is_not() -> None:
    fenced = threading.Event()
    exits: list[int] = []
    async with Watchdog(
        fence_after_s=0.3, exit_after_s=60.0, on_fence=fenced.set, end_process=exits.append
    ) as dog:
        await asyncio.sleep(0.5)
        assert not dog.fenced
        assert fenced.wait(timeout=30.0)  # blocks this loop
        assert dog.fenced
    assert exits == []


async def test_a_loop_blocked_for_good_ends_the_process() -> None:
    exits: list[int] = []
    ended = threading.Event()

    def end(code: int) -> None:
        exits.append(code)
        ended.set()

    async with Watchdog(fence_after_s=0.05, exit_after_s=0.15, end_process=end):
        assert ended.wait(timeout=30.0)
    assert set(exits) == {75}


async def test_the_thread_is_gone_after_the_context() -> None:
    async with Watchdog(fence_after_s=60.0, exit_after_s=90.0) as dog:
        assert dog._thread.is_alive()
        began = time.monotonic()
    assert not dog._thread.is_alive()
    assert time.monotonic() - began < 1.0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_thread_that_fails_ends_the_process_rather_than_stop_watching() -> None:
    exits: list[int] = []
    ended = threading.Event()

    def end(code: int) -> None:
        exits.append(code)
        ended.set()

    def fail() -> None:
        raise RuntimeError

    dog = Watchdog(fence_after_s=0.05, exit_after_s=60.0, on_fence=fail, end_process=end)
    async with dog:
        assert ended.wait(timeout=30.0)
    assert exits == [watchdog.EXIT_CODE]
