"""Follow a topic from its end, outside any group: for what is only worth knowing now.

Invariant: what was written before, or while the broker was away, is never read; nothing is committed.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from kafkaio.settings import KafkaSettings
from runtime.logs import get_logger

POLL_MS: Final = 200
RECORDS_MAX: Final = 1_000
FETCH_BYTES_MAX: Final = 256 * 1024
METADATA_MAX_AGE_MS: Final = 10_000
AGAIN_S: Final = 1.0
STOP_S: Final = 2.0

_log = get_logger()


async def follow(settings: KafkaSettings, topic: str, heard: Callable[[bytes], None]) -> NoReturn:
    """Call `heard` with each new value of a topic until cancelled; a broker that is away is waited for."""
    while True:
        try:
            await _follow_once(settings, topic, heard)
        except (KafkaError, TimeoutError, OSError) as error:
            _log.warning("tail.lost", topic=topic, error=error)
        await asyncio.sleep(AGAIN_S)


async def _follow_once(settings: KafkaSettings, topic: str, heard: Callable[[bytes], None]) -> None:
    # Without a group the library assigns all partitions itself, those of a topic that comes later too, and begins each
    # where `auto_offset_reset` says.
    kafka = AIOKafkaConsumer(
        settings.topic(topic),
        bootstrap_servers=settings.bootstrap,
        **settings.access.arguments(),
        client_id=settings.client_id,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="latest",
        metadata_max_age_ms=METADATA_MAX_AGE_MS,
        request_timeout_ms=int(settings.request_s * 1000),
        max_partition_fetch_bytes=FETCH_BYTES_MAX,
        fetch_max_bytes=16 * FETCH_BYTES_MAX,
    )
    try:
        async with asyncio.timeout(settings.request_s):
            await kafka.start()
        while True:
            found = await kafka.getmany(timeout_ms=POLL_MS, max_records=RECORDS_MAX)
            for records in found.values():
                for record in records:
                    heard(record.value or b"")
    finally:
        async with asyncio.timeout(STOP_S):
            await kafka.stop()
