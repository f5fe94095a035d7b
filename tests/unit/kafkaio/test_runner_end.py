"""How a run ends: stopped, stalled, tripped. The runner against a scripted group, in virtual time."""

import asyncio
from random import Random

import pytest

from kafkaio.disposition import DeadLetter, DeadLetterReason, Done, Retry, RetryReason
from kafkaio.fuse import DlqLimit, FuseTripped
from kafkaio.runner import Stalled
from runtime.testing import LoopClock, run_virtual
from tests.unit.kafkaio.scripted_group import (
    PARTITIONS,
    ScriptedGroup,
    ScriptedProducer,
    a_record,
    a_runner,
    until,
)


class SleptClock(LoopClock):
    """Goes on while the process doesn't."""

    slept_s = 0.0

    def boottime(self):
        return super().boottime() + self.slept_s


def test_a_record_to_set_aside_without_a_producer_ends_the_run_uncommitted():
    async def main():
        group = ScriptedGroup(Random(5), 1)

        async def handle(record):
            return DeadLetter(DeadLetterReason.POISON)

        runner = a_runner(group, handle)
        runner._producer = None
        with pytest.raises(RuntimeError, match="no producer"):
            await runner.run(asyncio.Event())
        assert set(group.committed.values()) == {0}

    run_virtual(main())


def test_a_stop_in_the_middle_of_a_long_retry_is_prompt():
    async def main():
        group = ScriptedGroup(Random(6), 1)
        calls = 0

        async def handle(record):
            nonlocal calls
            calls += 1
            return Retry(3_600.0, RetryReason.LEDGER_AWAY)

        runner = a_runner(group, handle, stall_s=10_000.0)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(runner.run(stop))
            await until(lambda: calls == PARTITIONS)
            began = asyncio.get_running_loop().time()
            stop.set()
        assert asyncio.get_running_loop().time() - began < 1.0

    run_virtual(main())


@pytest.mark.bco("J06")
def test_bco_j06_a_consumer_that_brings_nothing_although_records_wait_ends_by_itself():
    async def main():
        group = ScriptedGroup(Random(7), 5)

        async def handle(record):
            return Done()

        async def silence(timeout_s, records_max=1):
            await asyncio.sleep(timeout_s)
            return {}

        group.poll = silence
        with pytest.raises(Stalled):
            async with asyncio.timeout(200):
                await a_runner(group, handle).run(asyncio.Event())

    run_virtual(main())


@pytest.mark.bco("J06")
def test_bco_j06_a_rebalance_that_never_ends_ends_the_run():
    async def main():
        group = ScriptedGroup(Random(8), 5)

        async def handle(record):
            group.settled.add((record.partition, record.offset))
            return Done()

        runner = a_runner(group, handle)

        async with asyncio.timeout(200), asyncio.TaskGroup() as tasks:
            asyncio.get_running_loop().call_later(1, lambda: tasks.create_task(runner._lose()))
            with pytest.raises(Stalled):
                await runner.run(asyncio.Event())

    run_virtual(main())


def test_a_process_that_stood_still_itself_does_not_take_its_own_sleep_for_a_stall():
    """Frozen for minutes and woken: nothing can have moved meanwhile, and what was begun goes on."""

    async def main():
        group = ScriptedGroup(Random(10), 5)
        may_end = asyncio.Event()

        async def handle(record):
            await may_end.wait()
            group.settled.add((record.partition, record.offset))
            return Done()

        runner = a_runner(group, handle)
        clock = runner._clock = SleptClock()
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(runner.run(stop))
            await asyncio.sleep(5)
            clock.slept_s = 600.0
            await asyncio.sleep(5)
            may_end.set()
            await until(lambda: group.is_read)
            stop.set()

    run_virtual(main())


def test_a_quiet_topic_is_no_stall():
    async def main():
        group = ScriptedGroup(Random(9), 1)

        async def handle(record):
            group.settled.add((record.partition, record.offset))
            return Done()

        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(a_runner(group, handle).run(stop))
            await asyncio.sleep(2_000)
            stop.set()
        assert group.is_read

    run_virtual(main())


def test_what_is_done_when_the_run_stops_is_committed():
    async def main():
        group = ScriptedGroup(Random(11), 5)

        async def handle(record):
            group.settled.add((record.partition, record.offset))
            return Done()

        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(0.5, stop.set)  # before the first commit in time
        await a_runner(group, handle).run(stop)
        assert group.is_read

    run_virtual(main())


def test_when_the_fuse_trips_nothing_more_is_begun_behind_the_record_that_is_left():
    async def main():
        group = ScriptedGroup(Random(13), 1)
        group.log = {0: [a_record(0, n, "a") for n in range(5)], 1: [a_record(1, 0, "b")]}
        begun = []

        async def handle(record):
            if record.partition == 0:
                begun.append(record.offset)
                if record.offset == 1:
                    raise ValueError("a bug")
            group.settled.add((record.partition, record.offset))
            return Done()

        producer = ScriptedProducer(group)
        runner = a_runner(group, handle, limit=DlqLimit(run_max=1), producer=producer)
        with pytest.raises(FuseTripped):
            await runner.run(asyncio.Event())
        assert begun == [0, 1]
        assert group.committed[group.at[0]] == 1
        assert producer.sent == []

    run_virtual(main())


def test_a_handler_that_fails_because_all_is_stopping_sets_nothing_aside():
    async def main():
        group = ScriptedGroup(Random(14), 1)
        stop = asyncio.Event()

        async def handle(record):
            await stop.wait()
            await asyncio.sleep(1)
            raise ConnectionError("the pool is closed")

        producer = ScriptedProducer(group)
        asyncio.get_running_loop().call_later(1, stop.set)
        await a_runner(group, handle, producer=producer, limit=DlqLimit(run_max=1)).run(stop)
        assert producer.sent == []
        assert set(group.committed.values()) == {0}

    run_virtual(main())


def test_work_that_does_not_end_is_abandoned_when_the_run_stops():
    async def main():
        group = ScriptedGroup(Random(15), 1)
        stop = asyncio.Event()

        async def handle(record):
            await asyncio.Event().wait()
            return Done()

        asyncio.get_running_loop().call_later(1, stop.set)
        await a_runner(group, handle).run(stop)
        assert asyncio.get_running_loop().time() < 10
        assert set(group.committed.values()) == {0}

    run_virtual(main())
