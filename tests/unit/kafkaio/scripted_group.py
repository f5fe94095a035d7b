"""A group as a script: a log in memory, and rebalances in the order in which the library makes them happen."""

import asyncio
from random import Random

from contracts.codec import Envelope
from kafkaio.consumer import Record, TopicPartition
from kafkaio.producer import NotPublished
from kafkaio.runner import Runner
from kafkaio.settings import KafkaSettings
from runtime.testing import LoopClock

PARTITIONS = 2
TOPIC = "sample"


def a_record(partition, offset, key):
    return Record(
        topic=TOPIC,
        partition=partition,
        offset=offset,
        key=key.encode(),
        value=b"",
        headers=(),
        envelope=Envelope(event_id="", event_type=""),
        timestamp_s=0.0,
    )


class ScriptedGroup:
    """Stands for `Member`: a log in memory, and rebalances in the order in which the library makes them happen."""

    def __init__(self, rng, records_count, *, commit_refusals=0.0):
        self.rng = rng
        self.commit_refusals = commit_refusals
        # Offsets with gaps, as after compaction.
        self.log = {
            p: [a_record(p, 3 * n, f"k{rng.randrange(5)}") for n in range(records_count)]
            for p in range(PARTITIONS)
        }
        self.at = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
        self.committed = dict.fromkeys(self.at, 0)
        self.position = dict(self.committed)
        self.paused = set()
        self.settled = set()
        self.runner = None

    def join(self):
        self.position = dict(self.committed)
        self.paused = set()
        self.runner._gain(frozenset(self.at))

    async def rebalance(self):
        await self.runner._lose()
        await asyncio.sleep(self.rng.random())
        self.join()

    async def start(self, stop):
        self.join()
        return True

    async def poll(self, timeout_s, records_max=7):
        await asyncio.sleep(timeout_s)
        found = {}
        for at in self.at:
            if at not in self.paused:
                records = [r for r in self.log[at.partition] if r.offset >= self.position[at]][:records_max]
                if records:
                    found[at] = records
                    self.position[at] = records[-1].offset + 1
        return found

    def pause(self, partitions):
        self.paused |= set(partitions)

    def resume(self, partitions):
        self.paused -= set(partitions)

    async def commit(self, offsets):
        for at, offset in offsets.items():
            below = {(at.partition, r.offset) for r in self.log[at.partition] if r.offset < offset}
            assert below <= self.settled, "a commit passed an unfinished record"
        await asyncio.sleep(0.02)
        if self.rng.random() < self.commit_refusals:
            return False
        self.committed.update(offsets)
        return True

    def high_water(self, at):
        return self.log[at.partition][-1].offset + 1

    async def unread(self, partitions):
        return {at for at in partitions if self.position[at] < self.high_water(at)}

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None

    @property
    def is_read(self):
        return all(self.committed[at] == self.high_water(at) for at in self.at)


class ScriptedProducer:
    """Fails every other send, as a broker does that comes and goes."""

    def __init__(self, group):
        self.group = group
        self.fails = True
        self.sent = []

    async def send(self, topic, *, value, key, headers):
        self.fails = not self.fails
        await asyncio.sleep(0.01)
        if not self.fails:
            raise NotPublished("away")
        found = dict(headers)
        self.sent.append((topic, found))
        self.group.settled.add((int(found["origin-partition"]), int(found["origin-offset"])))


def a_runner(group, handle, **more):
    producer = more.pop("producer", None) or ScriptedProducer(group)
    runner = Runner(
        KafkaSettings(bootstrap="", client_id="", rebalance_s=10.0),
        group="unit",
        topics=[TOPIC],
        handle=handle,
        key_of=lambda record: record.key.decode(),
        producer=producer,
        clock=LoopClock(),
        rng=Random(1),
        **{"concurrency": 4, "inflight_max": 20, "per_key_max": 6, "span_max": 60, **more},
    )
    runner._member = group
    group.runner = runner
    return runner


async def until(condition, limit_s=2_000.0):
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.1)
