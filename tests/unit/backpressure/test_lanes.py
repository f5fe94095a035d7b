"""Serial per key, parallel across keys, bounded in every direction."""

import asyncio
from collections import defaultdict
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backpressure.lanes import Lanes

DEADLINE_S = 30.0


class Workshop:
    """Works that wait for a gate and note who ran, in what order and how many at once."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.started: list[tuple[str, int]] = []
        self.finished: list[tuple[str, int]] = []

    def work(self, key: str, n: int):
        async def run() -> None:
            self.started.append((key, n))
            await self.gate.wait()
            self.finished.append((key, n))

        return run


async def until(condition) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0)


async def nothing() -> None:
    pass


async def test_one_key_is_serial_and_others_run_beside_it() -> None:
    shop = Workshop()
    async with Lanes(10, 10, 10) as lanes:
        assert lanes.submit("a", shop.work("a", 1))
        assert lanes.submit("a", shop.work("a", 2))
        assert lanes.submit("b", shop.work("b", 1))
        await until(lambda: len(shop.started) == 2)
        assert shop.started == [("a", 1), ("b", 1)]
        assert (lanes.in_flight, lanes.queued) == (2, 1)
        shop.gate.set()
        assert await lanes.wait_idle(DEADLINE_S)
    assert [n for key, n in shop.finished if key == "a"] == [1, 2]


async def test_a_full_house_and_a_full_lane_are_refused() -> None:
    shop = Workshop()
    async with Lanes(capacity=4, per_key_max=2, concurrency=1) as lanes:
        assert lanes.submit("a", shop.work("a", 1))
        assert lanes.submit("a", shop.work("a", 2))
        assert not lanes.submit("a", shop.work("a", 3)), "the lane is full"
        assert lanes.submit("b", shop.work("b", 1))
        assert lanes.submit("c", shop.work("c", 1))
        assert not lanes.submit("d", shop.work("d", 1)), "all are full"
        shop.gate.set()
        assert await lanes.wait_idle(DEADLINE_S)
        assert lanes.submit("d", nothing)
    assert ("a", 3) not in shop.finished


async def test_no_more_run_at_once_than_the_concurrency() -> None:
    shop = Workshop()
    async with Lanes(50, 50, 3) as lanes:
        for n in range(10):
            lanes.submit(n, shop.work(str(n), n))
        await until(lambda: len(shop.started) == 3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(shop.started) == lanes.in_flight == 3
        assert lanes.queued == 7
        shop.gate.set()
    assert len(shop.finished) == 10


async def test_a_hot_key_does_not_starve_the_others() -> None:
    order: list[str] = []

    def note(key: str):
        async def run() -> None:
            order.append(key)
            await asyncio.sleep(0)

        return run

    async with Lanes(100, 100, 1) as lanes:
        for _ in range(50):
            lanes.submit("hot", note("hot"))
        lanes.submit("cold", note("cold"))
    assert order.index("cold") <= 2
    assert len(order) == 51


async def test_works_that_never_wait_leave_the_loop_to_others() -> None:
    done = 0

    async def count() -> None:
        nonlocal done
        done += 1

    async with Lanes(1000, 1000, 1) as lanes:
        for _ in range(1000):
            lanes.submit("a", count)
        await until(lambda: done > 0)
        assert done < 100


async def test_dropping_forgets_what_waits_and_leaves_what_runs() -> None:
    shop = Workshop()
    async with Lanes(20, 20, 2) as lanes:
        for key in ("a", "b", "c"):
            for n in (1, 2, 3):
                lanes.submit(key, shop.work(key, n))
        await until(lambda: len(shop.started) == 2)
        assert lanes.drop_queued() == 7
        assert (lanes.in_flight, lanes.queued) == (2, 0)
        assert lanes.submit("a", shop.work("a", 9)), "order and one at a time hold across a drop"
        assert (lanes.in_flight, lanes.queued) == (2, 1)
        shop.gate.set()
        assert await lanes.wait_idle(DEADLINE_S)
    assert sorted(shop.finished) == [("a", 1), ("a", 9), ("b", 1)]


async def test_dropping_before_anything_ran_leaves_it_idle() -> None:
    async with Lanes(10, 10, 2) as lanes:
        lanes.submit("a", nothing)
        assert lanes.drop_queued() == 1
        assert await lanes.wait_idle(0.0)
        assert lanes.submit("a", nothing)
        assert not await lanes.wait_idle(0.0)


async def test_waiting_for_idle_gives_up_at_its_time() -> None:
    shop = Workshop()
    async with Lanes(10, 10, 2) as lanes:
        assert await lanes.wait_idle(0.0)
        lanes.submit("a", shop.work("a", 1))
        assert not await lanes.wait_idle(0.01)
        shop.gate.set()
        assert await lanes.wait_idle(DEADLINE_S)


async def test_leaving_finishes_what_was_accepted_and_takes_no_more() -> None:
    done = 0
    lanes = Lanes(100, 100, 2)

    async def count() -> None:
        nonlocal done
        done += 1
        await asyncio.sleep(0)

    assert not lanes.submit("a", count), "not open yet"
    async with lanes:
        for n in range(100):
            assert lanes.submit(n % 7, count)
    assert done == 100
    assert not lanes.submit("a", count)


async def test_an_idle_lane_leaves_nothing_behind() -> None:
    async with Lanes(100, 100, 4) as lanes:
        for n in range(1000):
            while not lanes.submit(n, nothing):
                await asyncio.sleep(0)
        assert await lanes.wait_idle(DEADLINE_S)
        assert (lanes.in_flight, lanes.queued) == (0, 0)
        assert not lanes._lanes
        await until(lambda: lanes._workers == 0)


@pytest.mark.parametrize("kind", ["raises", "is cancelled from within"])
async def test_a_work_that_fails_takes_the_group_down_loudly(kind: str) -> None:
    shop = Workshop()

    async def fail() -> None:
        if kind == "raises":
            raise LookupError("a bug")
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    lanes = Lanes(10, 10, 4)

    async def serve() -> None:
        async with asyncio.timeout(DEADLINE_S), lanes:
            lanes.submit("a", shop.work("a", 1))
            lanes.submit("b", fail)
            try:
                await asyncio.Event().wait()
            finally:
                assert not lanes.submit("c", nothing), "the group takes no more tasks"

    with pytest.raises(ExceptionGroup) as caught:
        await serve()
    assert caught.group_contains(LookupError if kind == "raises" else RuntimeError)
    assert not shop.finished, "siblings are cancelled, not finished"
    assert not lanes.submit("c", nothing)


async def test_a_cancelled_block_cancels_what_runs() -> None:
    shop = Workshop()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02), Lanes(10, 10, 4) as lanes:
            lanes.submit("a", shop.work("a", 1))
    assert shop.started
    assert not shop.finished


@settings(deadline=None, max_examples=60)
@given(
    keys=st.lists(st.integers(0, 5), max_size=60),
    concurrency=st.integers(1, 5),
    per_key_max=st.integers(1, 6),
    drops=st.sets(st.integers(0, 60), max_size=3),
    seed=st.integers(0, 2**16),
)
def test_whatever_is_submitted_each_key_runs_in_order_and_alone(
    keys: list[int], concurrency: int, per_key_max: int, drops: set[int], seed: int
) -> None:
    rng = Random(seed)
    running: set[int] = set()
    ran: dict[int, list[int]] = defaultdict(list)
    dropped = 0

    def work(key: int, n: int):
        async def run() -> None:
            assert key not in running
            running.add(key)
            assert len(running) <= concurrency
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            running.remove(key)
            ran[key].append(n)

        return run

    async def scenario() -> None:
        nonlocal dropped
        async with Lanes(12, per_key_max, concurrency) as lanes:
            for n, key in enumerate(keys):
                while not lanes.submit(key, work(key, n)):
                    await asyncio.sleep(0)
                assert lanes.in_flight + lanes.queued <= 12
                if n in drops:
                    dropped += lanes.drop_queued()
            assert await lanes.wait_idle(DEADLINE_S)

    asyncio.run(scenario())
    assert all(order == sorted(order) for order in ran.values())
    assert sum(map(len, ran.values())) + dropped == len(keys)
