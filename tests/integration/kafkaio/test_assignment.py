"""Two members of an assignment share the partitions and read nothing."""

import asyncio

import msgspec

from kafkaio.admin import committed_offsets
from kafkaio.assignment import Assignment
from tests.integration.kafkaio.reading import eventually


async def test_two_members_share_the_partitions_and_one_gets_all_back(settings, make_topic):
    topic = await make_topic("slots", 4)
    async with Assignment.open(settings, group="slots", topic=topic) as first:
        async with asyncio.timeout(60):
            version = await first.changed(0)
        assert first.partitions == {0, 1, 2, 3}
        assert first.is_connected
        async with Assignment.open(settings, group="slots", topic=topic) as second:
            await eventually(lambda: len(second.partitions) == 2 and len(first.partitions) == 2)
            assert first.partitions | second.partitions == {0, 1, 2, 3}
            assert max(first.partitions) - min(first.partitions) == 1  # a range
            assert first.version > version
        await eventually(lambda: len(first.partitions) == 4)
    assert await committed_offsets(settings, "slots", topic) == {}


async def test_an_assignment_opens_and_closes_while_the_broker_is_away(settings):
    away = msgspec.structs.replace(settings, bootstrap="127.0.0.1:1")
    async with asyncio.timeout(30), Assignment.open(away, group="g", topic="t") as assignment:
        assert (assignment.version, assignment.partitions) == (0, frozenset())
        assert not assignment.is_connected
