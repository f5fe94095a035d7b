"""A consumer that is killed again and again skips nothing."""

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

import pytest

from kafkaio.admin import committed_offsets, end_offsets
from kafkaio.producer import Producer

KILLS = 3
RECORDS = 2_000


def effects_in(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


async def until_more(path: Path, count: int, limit_s: float) -> None:
    async with asyncio.timeout(limit_s):
        while len(effects_in(path)) < count:
            await asyncio.sleep(0.02)


@pytest.mark.bco("J02")
@pytest.mark.timeout(300)
async def test_bco_j02_a_consumer_killed_at_random_skips_no_record(settings, make_topic, tmp_path):
    topic = await make_topic("killed", 4)
    values = [b"%d" % n for n in range(RECORDS)]
    async with Producer.open(settings, linger_s=0.005) as producer, asyncio.TaskGroup() as tasks:
        for n, value in enumerate(values):
            tasks.create_task(producer.send(topic, key=b"k%d" % (n % 50), value=value))

    path, rng = tmp_path / "effects", random.Random(7)
    script = Path(__file__).parent / "effects_process.py"
    arguments = (settings.bootstrap, settings.topic_prefix, topic, str(path))

    async def start():
        return await asyncio.create_subprocess_exec(sys.executable, str(script), *arguments)

    for _ in range(KILLS):
        process = await start()
        try:
            # A dead member is waited for until its session ends, hence the limit.
            await until_more(path, len(effects_in(path)) + rng.randint(20, 250), limit_s=60)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
    process = await start()
    try:
        ends = await end_offsets(settings, topic)
        async with asyncio.timeout(60):
            while await committed_offsets(settings, "effects", topic) != ends:
                await asyncio.sleep(0.1)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
    effects = effects_in(path)
    assert set(effects) == set(values)
    assert len(effects) >= RECORDS
