"""The runner against a scripted group, in virtual time: whatever rebalances, raises, retries or refuses commits."""

import asyncio
from collections import defaultdict
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaio.disposition import DeadLetter, DeadLetterReason, Done, Drop, DropReason, Retry, RetryReason
from kafkaio.fuse import DlqLimit
from runtime.testing import run_virtual
from tests.unit.kafkaio.scripted_group import (
    PARTITIONS,
    TOPIC,
    ScriptedGroup,
    ScriptedProducer,
    a_record,
    a_runner,
    until,
)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), rebalances=st.integers(0, 6), refusals=st.sampled_from([0.0, 0.3]))
def test_every_record_is_settled_in_order_per_key_and_no_commit_passes_an_unfinished_one(
    seed, rebalances, refusals
):
    rng = Random(seed)

    async def main():
        group = ScriptedGroup(rng, 30, commit_refusals=refusals)
        in_work, begun = set(), defaultdict(list)

        async def handle(record):
            assert record.key not in in_work, "two records of a key at once"
            in_work.add(record.key)
            try:
                begun[record.key, record.partition].append(record.offset)
                # Sometimes longer than a rebalance waits.
                await asyncio.sleep(rng.choice([0, 0, 0.01, 0.3, 6.0]))
                roll = rng.random()
                if roll < 0.1:
                    return Retry(rng.choice([0, 0.5]), RetryReason.BUSY)
                if roll < 0.15:
                    raise ValueError("a bug")
                if roll < 0.2:
                    return DeadLetter(DeadLetterReason.UNDECODABLE)
                group.settled.add((record.partition, record.offset))
                return Drop(DropReason.DUPLICATE) if roll < 0.3 else Done()
            finally:
                in_work.discard(record.key)

        runner = a_runner(group, handle, limit=DlqLimit(run_max=50, share_max=0.9))
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(runner.run(stop))
            await asyncio.sleep(0)
            for _ in range(rebalances):
                await asyncio.sleep(rng.random() * 8)
                await group.rebalance()
            await until(lambda: group.is_read)
            stop.set()
        for offsets in begun.values():
            first_times = list(dict.fromkeys(offsets))
            assert first_times == sorted(first_times), "a record overtook one of its key"

    run_virtual(main())


def test_what_is_held_stays_within_its_limits_while_handlers_stand_still():
    async def main():
        group = ScriptedGroup(Random(2), 400)
        release = asyncio.Event()
        begun = 0

        async def handle(record):
            nonlocal begun
            begun += 1
            await release.wait()
            group.settled.add((record.partition, record.offset))
            return Done()

        runner = a_runner(group, handle)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(runner.run(stop))
            await asyncio.sleep(30)
            held = sum(tracker.unsettled for tracker in runner._tenure.trackers.values())
            assert begun == 4
            assert held <= 20 + PARTITIONS * 7  # in the lanes, and one poll a partition
            assert group.paused == set(group.at)
            release.set()
            await until(lambda: group.is_read)
            assert not group.paused
            stop.set()

    run_virtual(main())


def test_work_that_outlives_its_tenure_settles_nothing_in_the_next():
    async def main():
        group = ScriptedGroup(Random(3), 1)
        release, calls = asyncio.Event(), []

        async def handle(record):
            if record.partition == 0:
                calls.append(record.offset)
                await release.wait()
                group.settled.add((0, record.offset))
            else:
                group.settled.add((1, record.offset))
            return Done()

        runner = a_runner(group, handle)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(runner.run(stop))
            await until(lambda: bool(calls))
            await group.rebalance()  # gives up waiting for the one that runs
            await asyncio.sleep(5)
            assert group.committed[group.at[0]] == 0
            assert calls == [0]  # the same record again waits in its lane behind itself
            release.set()
            await until(lambda: group.is_read)
            assert calls == [0, 0]
            stop.set()

    run_virtual(main())


def test_attempts_are_limited_only_on_request_and_then_the_record_is_set_aside():
    async def main():
        group = ScriptedGroup(Random(4), 1)

        async def handle(record):
            return Retry(1.0, RetryReason.PEER_AWAY)

        producer = ScriptedProducer(group)
        runner = a_runner(group, handle, attempts_max=3, producer=producer)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(runner.run(stop))
            await until(lambda: group.is_read)
            stop.set()
        assert [topic for topic, _ in producer.sent] == [f"{TOPIC}.dlq"] * PARTITIONS
        assert {headers["dead-letter-reason"] for _, headers in producer.sent} == {b"too_many_attempts"}
        assert {headers["dead-letter-attempts"] for _, headers in producer.sent} == {b"3"}

    run_virtual(main())


def test_nothing_of_a_tenure_is_committed_once_it_is_over():
    async def main():
        group = ScriptedGroup(Random(10), 1)
        release = asyncio.Event()

        async def handle(record):
            await release.wait()
            group.settled.add((record.partition, record.offset))
            return Done()

        runner = a_runner(group, handle)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(runner.run(stop))
            await asyncio.sleep(1)
            old = runner._tenure
            await runner._lose()
            release.set()
            await until(lambda: len(old.committable()) == PARTITIONS)  # finished too late
            await runner._commit(old)
            assert set(group.committed.values()) == {0}
            stop.set()

    run_virtual(main())


def test_a_record_that_waited_for_its_turn_until_the_tenure_ended_is_not_begun():
    async def main():
        group = ScriptedGroup(Random(12), 1)
        group.log = {0: [a_record(0, 0, "a")], 1: [a_record(1, 0, "b")]}
        release, begun = asyncio.Event(), []

        async def handle(record):
            begun.append(record.key)
            await release.wait()
            group.settled.add((record.partition, record.offset))
            return Done()

        runner = a_runner(group, handle, concurrency=1)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(runner.run(stop))
            await until(lambda: bool(begun))
            await runner._lose()  # while the other waits for the only slot
            release.set()
            await asyncio.sleep(1)
            assert len(begun) == 1
            stop.set()

    run_virtual(main())
