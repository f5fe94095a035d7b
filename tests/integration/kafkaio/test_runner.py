"""The runner on the real broker: order, commits, dead letters, the fuse, pauses, rebalances."""

import asyncio
from collections import defaultdict

import pytest

from contracts.codec import Envelope
from kafkaio import metrics
from kafkaio.admin import committed_offsets, end_offsets
from kafkaio.disposition import DeadLetter, DeadLetterReason, Done, Retry, RetryReason
from kafkaio.fuse import DlqLimit, FuseTripped
from kafkaio.producer import Producer
from kafkaio.runner import Runner, Stalled
from tests.integration.kafkaio.reading import eventually, everything, running


def key_of(record):
    return (record.key or b"").decode()


async def produce(producer, topic, pairs, **more):
    async with asyncio.TaskGroup() as tasks:
        for key, value in pairs:
            tasks.create_task(producer.send(topic, key=key, value=value, **more))


def numbered(keys, each):
    return [(b"k%d" % key, b"%d:%d" % (key, n)) for n in range(each) for key in range(keys)]


async def test_one_keys_records_run_one_at_a_time_in_order_while_keys_run_side_by_side(settings, make_topic):
    topic = await make_topic("order")
    seen, running_now, widest = defaultdict(list), set(), 0

    async def handle(record):
        nonlocal widest
        assert record.key not in running_now
        running_now.add(record.key)
        widest = max(widest, len(running_now))
        await asyncio.sleep(0.001)
        running_now.discard(record.key)
        seen[record.key].append(int(record.value.split(b":")[1]))
        return Done()

    async with Producer.open(settings) as producer:
        await produce(producer, topic, numbered(20, 50))
        runner = Runner(
            settings,
            group="order",
            topics=[topic],
            handle=handle,
            key_of=key_of,
            producer=producer,
            concurrency=8,
        )
        async with running(runner):
            await eventually(lambda: sum(map(len, seen.values())) >= 1000)
    assert all(numbers == list(range(50)) for numbers in seen.values())
    assert 2 < widest <= 8
    ends = {p: end for p, end in (await end_offsets(settings, topic)).items() if end}
    assert await committed_offsets(settings, "order", topic) == ends


async def test_a_retried_record_holds_back_its_own_key_only_and_keeps_its_place(settings, make_topic):
    topic = await make_topic("retry", 1)
    seen, refusals = [], 3

    async def handle(record):
        nonlocal refusals
        if record.value == b"0:1" and refusals:
            refusals -= 1
            return Retry(0.3, RetryReason.BUSY)
        seen.append(record.value.decode())
        return Done()

    async with Producer.open(settings) as producer:
        await produce(producer, topic, numbered(2, 4))
        # One slot: if a waiting record held it, the other key could not pass.
        runner = Runner(
            settings,
            group="retry",
            topics=[topic],
            handle=handle,
            key_of=key_of,
            producer=producer,
            concurrency=1,
        )
        async with running(runner):
            await eventually(lambda: len(seen) == 8)
    assert [each for each in seen if each[0] == "0"] == ["0:0", "0:1", "0:2", "0:3"]
    assert seen.index("1:3") < seen.index("0:1")


@pytest.mark.bco("J03")
async def test_bco_j03_a_commit_never_passes_an_unfinished_record(settings, make_topic):
    topic = await make_topic("gap", 1)
    release, finished = asyncio.Event(), []

    async def blocked(record):
        if record.offset == 4:
            await release.wait()
        finished.append(record.offset)
        return Done()

    async with Producer.open(settings) as producer:
        await produce(producer, topic, numbered(10, 1))
        first = Runner(
            settings, group="gap", topics=[topic], handle=blocked, key_of=key_of, producer=producer
        )
        async with running(first):
            await eventually(lambda: len(finished) == 9)
        assert 4 not in finished  # the run ended without it
        assert await committed_offsets(settings, "gap", topic) == {0: 4}
        finished.clear()
        release.set()
        second = Runner(
            settings, group="gap", topics=[topic], handle=blocked, key_of=key_of, producer=producer
        )
        async with running(second):
            await eventually(lambda: len(finished) == 6)
    assert sorted(finished) == [4, 5, 6, 7, 8, 9]
    assert await committed_offsets(settings, "gap", topic) == {0: 10}


@pytest.mark.bco("J01")
async def test_bco_j01_records_that_raise_or_are_refused_are_set_aside_and_the_partition_goes_on(
    settings, make_topic
):
    topic = await make_topic("poison", 1)
    done = []

    async def handle(record):
        if record.value == b"raises":
            raise ValueError("a bug")
        if not record.value:
            return DeadLetter(DeadLetterReason.UNDECODABLE)
        done.append(record.value)
        return Done()

    envelope = Envelope(event_id="e1", event_type="Sample")
    async with Producer.open(settings) as producer:
        await producer.send(topic, key=b"k", value=b"raises", envelope=envelope)
        await producer.send(topic, key=b"k", value=b"", partition=0)
        await producer.send(topic, value=b"good")
        other = Envelope(event_id="e2", event_type="Sample", replay_for="another-group")
        await producer.send(topic, value=b"raises", envelope=other)
        await producer.send(topic, key=b"k", value=b"good")
        runner = Runner(
            settings,
            group="poison",
            topics=[topic],
            handle=handle,
            key_of=lambda record: record.key.decode(),  # itself raises without a key
            producer=producer,
        )
        async with running(runner):
            await eventually(lambda: len(done) == 2)
    first, second = await everything(settings, f"{topic}.dlq")
    headers = dict(first.headers)
    assert (first.key, first.value) == (b"k", b"raises")
    assert headers["event-id"] == b"e1"
    assert headers["dead-letter-group"] == b"poison"
    assert headers["dead-letter-reason"] == b"bug"
    assert headers["dead-letter-attempts"] == b"1"
    assert headers["origin-topic"] == b"poison"
    assert (headers["origin-partition"], headers["origin-offset"]) == (b"0", b"0")
    assert dict(second.headers)["dead-letter-reason"] == b"undecodable"
    assert await committed_offsets(settings, "poison", topic) == {0: 5}
    count = metrics.RECORDS.labels("poison", "drop", "replay_for_other_group")._value.get()
    assert count == 1


async def test_the_fuse_ends_the_run_before_the_topic_is_set_aside(settings, make_topic):
    topic = await make_topic("fuse", 1)

    async def handle(record):
        raise ValueError("always")

    async with Producer.open(settings) as producer:
        await produce(producer, topic, [(b"k", b"x")] * 30)
        runner = Runner(
            settings,
            group="fuse",
            topics=[topic],
            handle=handle,
            key_of=key_of,
            producer=producer,
            limit=DlqLimit(run_max=5),
        )
        with pytest.raises(FuseTripped):
            async with asyncio.timeout(40):
                await runner.run(asyncio.Event())
    assert len(await everything(settings, f"{topic}.dlq")) == 4
    assert await committed_offsets(settings, "fuse", topic) == {0: 4}


async def test_a_full_service_pauses_its_partitions_and_takes_all_in_the_end(settings, make_topic):
    topic = await make_topic("full")
    release, begun = asyncio.Event(), []

    async def handle(record):
        begun.append(record.value)
        await release.wait()
        return Done()

    async with Producer.open(settings) as producer:
        await produce(producer, topic, numbered(100, 3))
        runner = Runner(
            settings,
            group="full",
            topics=[topic],
            handle=handle,
            key_of=key_of,
            producer=producer,
            concurrency=10,
            inflight_max=20,
        )
        paused = metrics.PAUSED.labels("full")._value
        in_flight = metrics.IN_FLIGHT.labels("full")._value
        async with running(runner):
            await eventually(lambda: paused.get() == 2)
            assert in_flight.get() == 20
            assert len(begun) == 10
            release.set()
            await eventually(lambda: len(begun) == 300 and paused.get() == 0)
    assert sorted(begun) == sorted(value for _, value in numbered(100, 3))


async def test_a_second_member_takes_over_half_and_nothing_is_lost(settings, make_topic):
    topic = await make_topic("members", 4)
    seen = defaultdict(list)

    def runner(name):
        async def handle(record):
            await asyncio.sleep(0.01)
            seen[name].append(record.value)
            return Done()

        return Runner(
            settings,
            group="members",
            topics=[topic],
            handle=handle,
            key_of=key_of,
            producer=None,
            concurrency=4,
        )

    expected = [value for _, value in numbered(40, 30)]
    async with Producer.open(settings) as producer:
        await produce(producer, topic, numbered(40, 30))
        async with running(runner("stays")):
            await eventually(lambda: len(seen["stays"]) > 50)
            async with running(runner("comes")):
                await eventually(lambda: len(seen["comes"]) > 50)
            await eventually(lambda: set(seen["stays"]) | set(seen["comes"]) >= set(expected))
    again = len(seen["stays"]) + len(seen["comes"]) - len(expected)
    assert again <= 20  # hand-overs wait for what runs, and commit


async def test_a_run_in_which_nothing_moves_ends_by_itself(settings, make_topic):
    topic = await make_topic("stall", 1)

    async def handle(record):
        await asyncio.Event().wait()
        return Done()

    async with Producer.open(settings) as producer:
        await produce(producer, topic, [(b"k", b"x")])
    runner = Runner(
        settings, group="stall", topics=[topic], handle=handle, key_of=key_of, producer=None, stall_s=1.0
    )
    with pytest.raises(Stalled):
        async with asyncio.timeout(40):
            await runner.run(asyncio.Event())
    assert await committed_offsets(settings, "stall", topic) == {}
