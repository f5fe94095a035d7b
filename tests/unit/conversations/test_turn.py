"""When the handlers look: at the moments that were noted, and every second besides."""

import asyncio

from conversations.turn import LOOK_EVERY_S, Turns


class ManualClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def boottime(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def some_turns(clock: ManualClock) -> Turns:
    return Turns(None, None, lanes_max=1, per_lane_max=1, clock=clock)


def test_noted_moments_stay_few_whatever_is_noted():
    clock = ManualClock()
    turns = some_turns(clock)
    for _ in range(10_000):
        clock.now += 0.0001
        turns.note_due(0.5)
    assert len(turns._moments) <= 1.0 / 0.005 + 2
    assert list(turns._moments) == sorted(turns._moments)
    assert turns._moments[-1] >= clock.now + 0.5, "a moment is never rounded to before the message is due"


async def test_a_moment_that_is_now_is_looked_at_once_by_one_handler():
    clock = ManualClock()
    turns = some_turns(clock)
    turns.note_due(0.5)
    turns.note_due(0)
    turns.note_due(0)
    assert await turns._is_time()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(turns._is_time())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        clock.now += LOOK_EVERY_S
        turns.note_due(0.5)  # wakes it
    assert waiting.result()
