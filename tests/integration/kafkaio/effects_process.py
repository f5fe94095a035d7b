"""A consumer to be killed: appends each record's value to a file, in one durable write, and says `ready` first."""

import asyncio
import os
import sys

from kafkaio.disposition import Done
from kafkaio.runner import Runner
from kafkaio.settings import KafkaSettings


async def main(bootstrap: str, prefix: str, topic: str, path: str) -> None:
    effects = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def handle(record):
        await asyncio.sleep(0.005)
        os.write(effects, record.value + b"\n")
        return Done()

    settings = KafkaSettings(
        bootstrap=bootstrap,
        client_id="effects",
        topic_prefix=prefix,
        session_s=6.0,
        heartbeat_s=0.3,
        rebalance_s=6.0,
    )
    runner = Runner(
        settings,
        group="effects",
        topics=[topic],
        handle=handle,
        key_of=lambda record: record.key.decode(),
        producer=None,
        concurrency=8,
    )
    await runner.run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
