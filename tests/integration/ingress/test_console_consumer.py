"""Apache's own console consumer, from the jars of the stack, reads what ingress and kafkaio have written."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from contracts.partition import partition_for
from deploy.local.kafka_server import find_java, find_or_fetch_jars, user_cache
from deploy.local.process import Host
from deploy.local.stack import DATA_DIR
from kafkaio.consumer import Record
from kafkaio.disposition import DeadLetter, DeadLetterReason
from kafkaio.producer import Producer
from kafkaio.runner import Runner
from kafkaio.settings import KafkaSettings
from tests.integration.ingress.reading import (
    PARTITIONS_COUNT,
    PN,
    T0,
    a_body,
    a_client,
    a_config,
    a_status,
    a_text,
    a_value,
    create_topics,
    post,
    until_ready,
)

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRINTED = ("timestamp", "partition", "headers", "key", "value")
LIMIT_S = 90.0
WORDS = "Zoë 5€ 😀"


@dataclass(frozen=True)
class Printed:
    """A record as the console printed it."""

    timestamp_ms: int
    partition: int
    headers: dict[str, str]
    key: str
    value: dict[str, object]


def parsed(line: str) -> Printed:
    timestamp, partition, headers, key, value = line.split("\t")
    return Printed(
        int(timestamp.removeprefix("CreateTime:")),
        int(partition.removeprefix("Partition:")),
        dict(header.split(":", 1) for header in headers.split("|")),
        key,
        json.loads(value),
    )


async def console(jars: Path, java: str, bootstrap: str, topic: str, count: int) -> list[Printed]:
    """Read so many records from a topic's beginning by a Java process."""
    wanted = [word for one in PRINTED for word in ("--property", f"print.{one}=true")]
    process = await asyncio.create_subprocess_exec(
        java, "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", str(jars / "*"), CONSOLE,
        "--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning", "--max-messages", str(count),
        "--timeout-ms", "60000", *wanted, "--property", "headers.separator=|",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(LIMIT_S):
            printed, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, said.decode()
    found = [parsed(line) for line in printed.decode().splitlines() if line.startswith("CreateTime:")]
    assert len(found) == count, said.decode()
    return found


async def set_aside(bootstrap: str, prefix: str, count: int) -> None:
    """Consume the messages as a service whose every record is undecodable."""
    settings = KafkaSettings(
        bootstrap=bootstrap, client_id="test", topic_prefix=prefix, session_s=12.0, heartbeat_s=1.0
    )
    stop, seen = asyncio.Event(), 0

    async def refuse(_record: Record) -> DeadLetter:
        nonlocal seen
        seen += 1
        if seen == count:
            stop.set()
        return DeadLetter(DeadLetterReason.UNDECODABLE)

    async with Producer.open(settings) as producer, asyncio.timeout(LIMIT_S):
        runner = Runner(
            settings, group="refusing", topics=["inbound-messages"], handle=refuse,
            key_of=lambda record: (record.key or b"").decode(), producer=producer,
        )  # fmt: skip
        await runner.run(stop)


@pytest.mark.timeout(240)
async def test_apaches_console_consumer_prints_what_was_posted(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    await asyncio.to_thread(create_topics, kafka_bootstrap, topic_prefix)
    senders = [f"44770090000{n}" for n in range(6)]
    messages = [a_text(f"wamid.J{n}", sender, WORDS) for n, sender in enumerate(senders)]
    statuses = [a_status(f"wamid.S{n}") for n in range(6)]
    async with a_client(a_config(kafka_bootstrap, topic_prefix)) as (client, app):
        await until_ready(app)
        for message, status in zip(messages, statuses, strict=True):
            assert (
                await post(client, a_body(a_value(messages=[message], statuses=[status])))
            ).status_code == 200
    await set_aside(kafka_bootstrap, topic_prefix, len(messages))

    java = find_java()
    jars = find_or_fetch_jars(Host(lambda _line: None), DATA_DIR / "console", user_cache(), java=java)
    names = ("inbound-messages", "message-statuses", "inbound-messages.dlq")
    async with asyncio.TaskGroup() as tasks:
        reading = [
            tasks.create_task(console(jars, java, kafka_bootstrap, topic_prefix + name, 6)) for name in names
        ]
    inbound, batches, letters = (task.result() for task in reading)

    keys = [f"{PN}:{sender}" for sender in senders]
    assert {(one.key, json.dumps(one.value["raw"])) for one in inbound} == {
        (key, json.dumps(message)) for key, message in zip(keys, messages, strict=True)
    }
    for one in inbound:
        assert one.partition == partition_for(one.key.encode(), PARTITIONS_COUNT)
        assert one.headers["event-id"] == one.value["event_id"]
        assert one.headers["event-type"] == "message.received"
        assert one.timestamp_ms > T0 * 500, "milliseconds of this century"
    told = [(batch.partition, status) for batch in batches for status in batch.value["statuses"]]  # type: ignore[attr-defined]
    assert sorted(status["wamid"] for _, status in told) == [one["id"] for one in statuses]
    assert all(status["raw"] in statuses for _, status in told)
    assert all(
        partition == partition_for(status["wamid"].encode(), PARTITIONS_COUNT) for partition, status in told
    )
    assert {batch.key for batch in batches} == {"null"}
    originals = {one.key: one for one in inbound}
    assert {one.key for one in letters} == set(keys)
    for letter in letters:
        origin = originals[letter.key]
        assert letter.value == origin.value
        assert letter.headers.items() >= origin.headers.items(), "the record's own headers stay"
        assert letter.headers["dead-letter-reason"] == "undecodable"
        assert letter.headers["origin-topic"] == "inbound-messages"
        assert letter.headers["origin-partition"] == str(origin.partition)
