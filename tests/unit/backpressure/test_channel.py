"""A bounded channel: what each policy does when it is full, and that nothing kept is lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from backpressure.channel import Channel, ChannelClosed, ChannelEmpty, Policy, Statistics

DEADLINE_S = 30.0


async def loop_turns(n: int = 5) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


def filled(policy: Policy, capacity: int = 2) -> Channel[int]:
    channel: Channel[int] = Channel(capacity, policy)
    for item in range(capacity):
        assert channel.put_nowait(item)
    return channel


def taken(channel: Channel[int]) -> list[int]:
    return [channel.get_nowait() for _ in range(channel.statistics().depth)]


async def test_reject_tells_the_producer() -> None:
    channel = filled(Policy.REJECT)
    assert not await channel.put(2)
    assert channel.statistics() == Statistics(offered=3, kept=2, rejected=1, dropped=0, depth=2, depth_max=2)
    assert taken(channel) == [0, 1]


async def test_drop_newest_loses_the_newcomer() -> None:
    channel = filled(Policy.DROP_NEWEST)
    assert not await channel.put(2)
    assert channel.statistics() == Statistics(offered=3, kept=2, rejected=0, dropped=1, depth=2, depth_max=2)
    assert taken(channel) == [0, 1]


async def test_drop_oldest_loses_the_one_that_waited_longest() -> None:
    channel = filled(Policy.DROP_OLDEST)
    assert await channel.put(2)
    assert channel.statistics() == Statistics(offered=3, kept=2, rejected=0, dropped=1, depth=2, depth_max=2)
    assert taken(channel) == [1, 2]


async def test_block_lets_producers_wait_in_their_order() -> None:
    channel, put = filled(Policy.BLOCK), []

    async def produce(item: int) -> None:
        assert await channel.put(item)
        put.append(item)

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        for item in (2, 3, 4):
            group.create_task(produce(item))
        await loop_turns()
        assert put == []
        assert channel.statistics().offered == 2, "one that waits is not offered yet"
        assert channel.get_nowait() == 0
        assert not channel.put_nowait(9), "the free place belongs to the one that waits"
        await loop_turns()
        assert put == [2]
        assert [await channel.get() for _ in range(4)] == [1, 2, 3, 4]
    assert channel.statistics() == Statistics(offered=6, kept=5, rejected=1, dropped=0, depth=0, depth_max=2)


async def test_a_newcomer_does_not_overtake_a_waiting_producer() -> None:
    channel: Channel[int] = filled(Policy.BLOCK, capacity=1)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        group.create_task(channel.put(1))
        await loop_turns()
        assert channel.get_nowait() == 0
        group.create_task(channel.put(2))
        assert [await channel.get(), await channel.get()] == [1, 2]


async def test_a_cancelled_producer_put_nothing_and_passes_its_turn_on() -> None:
    channel = filled(Policy.BLOCK, capacity=1)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        first = group.create_task(channel.put(1))
        group.create_task(channel.put(2))
        await loop_turns()
        assert channel.get_nowait() == 0  # wakes the first …
        first.cancel()  # … which dies before it runs
        assert await channel.get() == 2
    assert channel.statistics().offered == 2


async def test_a_cancelled_consumer_passes_its_turn_on() -> None:
    channel: Channel[int] = Channel(2, Policy.BLOCK)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        first = group.create_task(channel.get())
        second = group.create_task(channel.get())
        await loop_turns()
        assert channel.put_nowait(7)
        first.cancel()
        assert await second == 7


async def test_consumers_are_served_in_their_order() -> None:
    channel: Channel[int] = Channel(2, Policy.BLOCK)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        consumers = [group.create_task(channel.get()) for _ in range(3)]
        await loop_turns()
        channel.put_nowait(0)
        channel.put_nowait(1)
        late = group.create_task(channel.get())
        await loop_turns()
        assert not late.done()
        channel.put_nowait(2)
        channel.put_nowait(3)
        assert [await consumer for consumer in consumers] == [0, 1, 2]
        assert await late == 3


async def test_iteration_yields_all_that_was_kept_and_ends() -> None:
    channel = filled(Policy.REJECT, capacity=3)
    channel.close()
    assert not await channel.put(9)
    assert [item async for item in channel] == [0, 1, 2]
    with pytest.raises(ChannelClosed):
        await channel.get()
    with pytest.raises(ChannelClosed):
        channel.get_nowait()
    assert channel.statistics().rejected == 1


async def test_closing_ends_all_waiting() -> None:
    full, empty = filled(Policy.BLOCK), Channel[int](2, Policy.BLOCK)
    partly = Channel[int](2, Policy.BLOCK)
    partly.put_nowait(5)

    async def iterate() -> list[int]:
        return [item async for item in empty]

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        producers = [group.create_task(full.put(item)) for item in (7, 8)]
        consumers = [group.create_task(iterate()), group.create_task(iterate())]
        batch = group.create_task(empty.get_batch(5, 60.0))
        gathering = group.create_task(partly.get_batch(5, 60.0))
        await loop_turns()
        for channel in (full, empty, partly):
            channel.close()
    assert [producer.result() for producer in producers] == [False, False]
    assert [consumer.result() for consumer in consumers] == [[], []]
    assert batch.result() == []
    assert gathering.result() == [5]
    assert full.statistics() == Statistics(offered=4, kept=2, rejected=2, dropped=0, depth=2, depth_max=2)
    assert taken(full) == [0, 1]


def test_taking_from_an_empty_channel_says_so() -> None:
    with pytest.raises(ChannelEmpty):
        Channel[int](1, Policy.REJECT).get_nowait()


async def test_a_batch_leaves_as_soon_as_it_is_full() -> None:
    channel: Channel[int] = Channel(10, Policy.BLOCK)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        batch = group.create_task(channel.get_batch(3, 60.0))
        for item in range(5):
            await loop_turns()
            channel.put_nowait(item)
        assert await batch == [0, 1, 2]
    assert await channel.get_batch(10, 0.0) == [3, 4]


async def test_a_batch_of_the_whole_channel_does_not_wait_for_more_than_fits() -> None:
    async with asyncio.timeout(DEADLINE_S):
        assert await filled(Policy.BLOCK).get_batch(100, 60.0) == [0, 1]


async def test_a_batch_leaves_when_its_linger_is_over() -> None:
    channel: Channel[int] = Channel(10, Policy.BLOCK)
    channel.put_nowait(1)
    async with asyncio.timeout(DEADLINE_S):
        assert await channel.get_batch(3, 0.005) == [1]


async def test_a_cancelled_batch_loses_nothing() -> None:
    channel: Channel[int] = Channel(10, Policy.BLOCK)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        batch = group.create_task(channel.get_batch(3, 60.0))
        await loop_turns()
        channel.put_nowait(1)
        channel.put_nowait(2)
        await loop_turns()
        batch.cancel()
    assert await channel.get_batch(3, 0.0) == [1, 2]


async def test_a_gathering_consumer_does_not_hold_up_another() -> None:
    channel: Channel[int] = Channel(10, Policy.BLOCK)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        batch = group.create_task(channel.get_batch(3, 60.0))
        await loop_turns()
        single = group.create_task(channel.get())
        await loop_turns()
        channel.put_nowait(1)
        assert await single == 1
        channel.put_nowait(2)
        channel.close()
        assert await batch == [2]


async def test_a_batch_whose_items_were_taken_by_another_waits_on() -> None:
    channel: Channel[int] = Channel(10, Policy.BLOCK)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        channel.put_nowait(1)
        batch = group.create_task(channel.get_batch(3, 0.001))
        await loop_turns()
        assert channel.get_nowait() == 1
        while channel._gatherers:
            await asyncio.sleep(0)
        await loop_turns()
        assert not batch.done(), "an empty batch would mean the end"
        channel.put_nowait(2)
        assert await batch == [2]


@settings(deadline=None)
@given(
    policy=st.sampled_from(Policy),
    capacity=st.integers(1, 4),
    moves=st.lists(st.sampled_from(["put", "put", "get", "close"]), max_size=60),
)
def test_the_counts_add_up_after_every_step(policy: Policy, capacity: int, moves: list[str]) -> None:
    channel: Channel[int] = Channel(capacity, policy)
    model = Model(policy, capacity)
    for item, move in enumerate(moves):
        if move == "put":
            assert channel.put_nowait(item) == model.put(item)
        elif move == "close":
            channel.close()
            model.closed = True
        elif model.inside:
            assert channel.get_nowait() == model.inside.pop(0)
            model.taken += 1
        counts = channel.statistics()
        assert counts.offered == counts.kept + counts.rejected + counts.dropped
        assert (counts.rejected, counts.dropped) == (model.rejected, model.dropped)
        assert counts.kept - counts.depth == model.taken
        assert counts.depth == len(model.inside) <= counts.depth_max <= capacity
    assert taken(channel) == model.inside


@dataclass
class Model:
    """The channel in the plainest words."""

    policy: Policy
    capacity: int
    inside: list[int] = field(default_factory=list)
    taken: int = 0
    rejected: int = 0
    dropped: int = 0
    closed: bool = False

    def put(self, item: int) -> bool:
        is_full = len(self.inside) == self.capacity
        if self.closed or (is_full and self.policy in (Policy.REJECT, Policy.BLOCK)):
            self.rejected += 1
            return False
        self.dropped += is_full
        if is_full and self.policy is Policy.DROP_NEWEST:
            return False
        self.inside = [*self.inside[is_full:], item]
        return True


@dataclass
class Crowd:
    """Producers and consumers that come, wait a random while, and now and then give up waiting."""

    channel: Channel[tuple[int, int]]
    rng: Random
    kept: list[tuple[int, int]] = field(default_factory=list)
    gave_up: int = 0

    @asynccontextmanager
    async def patience(self) -> AsyncIterator[None]:
        await loop_turns(self.rng.randrange(4))
        try:
            async with asyncio.timeout(0.0 if self.rng.random() < 0.2 else None):
                yield
        except TimeoutError:
            self.gave_up += 1

    async def produce(self, name: int) -> None:
        for n in range(12):
            async with self.patience():
                if await self.channel.put((name, n)):
                    self.kept.append((name, n))

    async def consume(self, into: list[tuple[int, int]]) -> None:
        with suppress(ChannelClosed):
            while True:
                async with self.patience():
                    into.append(await self.channel.get())

    async def consume_batches(self, into: list[tuple[int, int]]) -> None:
        batch = None
        while batch != []:
            batch = None
            async with self.patience():
                batch = await self.channel.get_batch(self.rng.randrange(1, 4), 0.0005)
                into.extend(batch)


@settings(deadline=None, max_examples=60)
@given(
    policy=st.sampled_from(Policy),
    capacity=st.integers(1, 4),
    producers=st.integers(1, 4),
    consumers=st.integers(1, 3),
    seed=st.integers(0, 2**16),
)
def test_among_many_tasks_and_cancellations_all_that_was_kept_arrives_once_and_in_order(
    policy: Policy, capacity: int, producers: int, consumers: int, seed: int
) -> None:
    crowd = Crowd(Channel(capacity, policy), Random(seed))
    arrived: list[list[tuple[int, int]]] = [[] for _ in range(consumers)]

    async def scenario() -> None:
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
            for i, into in enumerate(arrived):
                group.create_task(crowd.consume_batches(into) if i == 1 else crowd.consume(into))
            async with asyncio.TaskGroup() as producing:
                for name in range(producers):
                    producing.create_task(crowd.produce(name))
            crowd.channel.close()

    asyncio.run(scenario())
    event(f"{policy}: somebody gave up: {crowd.gave_up > 0}")
    items = [item for into in arrived for item in into]
    counts = crowd.channel.statistics()
    assert len(items) == len(set(items)) == counts.kept
    assert counts.offered == counts.kept + counts.rejected + counts.dropped
    assert counts.depth == 0
    lost_from_within = counts.dropped if policy is Policy.DROP_OLDEST else 0
    assert len(set(crowd.kept) - set(items)) == lost_from_within
    assert set(items) <= set(crowd.kept)
    for into in arrived:
        assert all(into.index(a) < into.index(b) for a in into for b in into if a[0] == b[0] and a[1] < b[1])
