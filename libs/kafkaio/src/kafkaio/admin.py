"""Creates the declared topics and compares what is on the broker with what is declared.

Invariant: nothing that exists is ever changed here; a topic that differs is reported, setting by setting.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code
from msgspec import Struct

from contracts.schemas import topic_config
from contracts.topics import TOPICS, Topic
from kafkaio.access import fault_of
from kafkaio.settings import KafkaSettings

_ADMIN_S = 20.0
_UNKNOWN_TOPIC = 3
_COMPARED = ("retention.ms", "max.message.bytes", "min.insync.replicas", "cleanup.policy")


class Mismatch(Struct, frozen=True):
    """One setting of one topic that isn't as declared; `topic` is the declared name."""

    topic: str
    setting: str
    expected: str
    found: str


class BrokerAway(Exception):
    """The broker didn't answer, or not in time."""


class TopicsRefused(Exception):
    """The broker didn't create a topic; the text names the topic and the broker's reason."""


async def apply_topics(
    settings: KafkaSettings,
    *,
    partitions_count: int,
    replication: int,
    min_insync: int,
    topics: Sequence[Topic] = TOPICS,
) -> list[str]:
    """Create the declared topics that are missing, all with `partitions_count` partitions; return a line for each.

    Raises `TopicsRefused` or `BrokerAway`.
    """
    assert partitions_count > 0
    assert 0 < min_insync <= replication
    async with _admin(settings) as admin:
        found = await _described(admin, settings, topics)
        missing = [topic for topic in topics if topic.name not in found]
        wanted = [
            NewTopic(
                settings.topic(topic.name),
                partitions_count,
                replication,
                topic_configs=_configs(topic, min_insync),
            )
            for topic in missing
        ]
        if wanted:
            _raise_refused(await admin.create_topics(wanted, timeout_ms=int(_ADMIN_S * 1000)))
    return [
        f"{topic.name}: {'created' if topic in missing else 'exists'}"
        + (f", {partitions_count} partitions" if topic in missing else "")
        for topic in topics
    ]


async def verify_topics(
    settings: KafkaSettings,
    *,
    partitions_count: int | None = None,
    replication: int | None = None,
    min_insync: int | None = None,
    topics: Sequence[Topic] = TOPICS,
) -> list[Mismatch]:
    """Return every difference between the broker and the declaration; what is None may have any value.

    Partition counts must be the same on all topics even then: the count of the first topic found is the measure.
    Raises `BrokerAway`.
    """
    async with _admin(settings) as admin:
        found = await _described(admin, settings, topics)
        configs = await _configs_found(admin, settings, found)
    expected_count = partitions_count or next((len(partitions) for partitions in found.values()), None)
    mismatches: list[Mismatch] = []
    for topic in topics:
        partitions = found.get(topic.name)
        if partitions is None:
            mismatches.append(Mismatch(topic.name, "exists", "yes", "no"))
            continue
        pairs: list[tuple[str, object, object]] = [
            ("partitions", expected_count, len(partitions)),
            ("replication", replication, min((len(at["replicas"]) for at in partitions), default=0)),
        ]
        wanted = _configs(topic, min_insync)
        pairs += [(name, wanted.get(name), configs[topic.name].get(name)) for name in _COMPARED]
        mismatches += _differences(topic.name, pairs)
    return mismatches


async def topics_fault(settings: KafkaSettings, topics: Sequence[Topic]) -> str:
    """Return why a service can't work with its topics, for its readiness; empty when it can."""
    try:
        async with asyncio.timeout(_ADMIN_S):
            mismatches = await verify_topics(settings, topics=topics)
    except (BrokerAway, RuntimeError, OSError, TimeoutError):  # the driver's own are RuntimeErrors
        return await broker_fault(settings)
    if not mismatches:
        return ""
    one = mismatches[0]
    return f"run `sluice topics apply`: {one.topic}: {one.setting} is {one.found}, must be {one.expected}"


async def partitions_of(settings: KafkaSettings, topics: Sequence[str]) -> dict[str, list[int]]:
    """Return topic → its partitions in order, of those topics that exist. Raises `BrokerAway`."""
    async with _admin(settings) as admin:
        found = await _described(admin, settings, topics)
    return {topic: sorted(at["partition"] for at in partitions) for topic, partitions in found.items()}


async def broker_fault(settings: KafkaSettings) -> str:
    """Return why the broker can't be worked with, for readiness: what it refuses, or that it is away."""
    return await fault_of(settings.bootstrap, settings.access)


async def end_offsets(settings: KafkaSettings, topic: str) -> dict[int, int]:
    """Return partition → offset behind its last record. Raises `BrokerAway`."""
    async with _admin(settings) as admin:
        found = await _described(admin, settings, [topic])
        return await _ends(settings, topic, [at["partition"] for at in found.get(topic, ())])


async def _ends(settings: KafkaSettings, topic: str, partitions: list[int]) -> dict[int, int]:
    kafka = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap,
        **settings.access.arguments(),
        client_id=settings.client_id,
        group_id=None,
        enable_auto_commit=False,
        request_timeout_ms=int(_ADMIN_S * 1000),
    )
    try:
        await kafka.start()
        theirs = [aiokafka.TopicPartition(settings.topic(topic), partition) for partition in partitions]
        ends = await kafka.end_offsets(theirs) if theirs else {}
    finally:
        await kafka.stop()
    return {at.partition: offset for at, offset in ends.items()}


async def committed_offsets(settings: KafkaSettings, group: str, topic: str) -> dict[int, int]:
    """Return partition → next offset that `group` would read; partitions without a commit are absent.

    Raises `BrokerAway`.
    """
    async with _admin(settings) as admin:
        found = await admin.list_consumer_group_offsets(settings.group(group))
    theirs = settings.topic(topic)
    return {
        at.partition: kept.offset for at, kept in found.items() if at.topic == theirs and kept.offset >= 0
    }


@asynccontextmanager
async def _admin(settings: KafkaSettings) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(
        bootstrap_servers=settings.bootstrap,
        **settings.access.arguments(),
        client_id=settings.client_id,
        request_timeout_ms=int(_ADMIN_S * 1000),
    )
    try:
        async with asyncio.timeout(_ADMIN_S):
            await admin.start()
            yield admin
    except (KafkaError, OSError, TimeoutError) as error:
        raise BrokerAway(type(error).__name__) from error
    finally:
        await admin.close()


def _configs(topic: Topic, min_insync: int | None) -> dict[str, str]:
    configs = {name: str(value) for name, value in topic_config(topic).items()}
    if min_insync is not None:
        configs["min.insync.replicas"] = str(min_insync)
    return configs


def _raise_refused(response: Any) -> None:
    for name, code, *_ in response.topic_errors:
        error: type[KafkaError] = for_code(code)
        if (
            code and error is not TopicAlreadyExistsError
        ):  # another one was faster: `verify` tells whether alike
            raise TopicsRefused(f"{name}: {error.__name__}")


async def _described(
    admin: AIOKafkaAdminClient, settings: KafkaSettings, topics: Iterable[Topic | str]
) -> dict[str, list[Any]]:
    """Return declared name → partitions, as the broker describes them, of the topics that exist."""
    names = [settings.topic(topic if isinstance(topic, str) else topic.name) for topic in topics]
    described = await admin.describe_topics(names)
    return {
        settings.name_of(topic["topic"]): topic["partitions"]
        for topic in described
        if topic["error_code"] != _UNKNOWN_TOPIC
    }


async def _configs_found(
    admin: AIOKafkaAdminClient, settings: KafkaSettings, names: Iterable[str]
) -> Mapping[str, Mapping[str, str]]:
    resources = [ConfigResource(ConfigResourceType.TOPIC, settings.topic(name)) for name in names]
    found: dict[str, dict[str, str]] = {}
    for response in await admin.describe_configs(resources) if resources else ():
        for _code, _message, _kind, name, entries in response.resources:
            found[settings.name_of(name)] = {entry[0]: entry[1] for entry in entries}
    return found


def _differences(topic: str, pairs: Iterable[tuple[str, object, object]]) -> list[Mismatch]:
    return [
        Mismatch(topic, setting, str(expected), str(found))
        for setting, expected, found in pairs
        if expected is not None and str(expected) != str(found)
    ]
