"""Records are read between two moments or at a place, from any number of partitions, and no group notices."""

import time

import pytest
from aiokafka import AIOKafkaProducer

from kafkaio.admin import BrokerAway
from kafkaio.browse import FETCH_BYTES_MAX, Browser
from kafkaio.deadletter import Place
from kafkaio.settings import KafkaSettings


async def written(settings, topic, records):
    """Produce (partition, value, timestamp in seconds), in this order."""
    async with AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap, max_request_size=5_000_000, linger_ms=0
    ) as kafka:
        for partition, value, at_s in records:
            await kafka.send_and_wait(
                settings.topic(topic), value=value, partition=partition, timestamp_ms=int(at_s * 1000)
            )


async def read(browser, topics, **more):
    return [record async for batch in browser.records(topics, **more) for record in batch]


async def test_all_records_come_in_the_order_of_topics_partitions_and_offsets(settings, make_topic):
    first, second = await make_topic("browsed", 3), await make_topic("browsed2", 1)
    now_s = time.time()
    rows = [(p, b"%d/%d" % (p, n), now_s) for n in range(3) for p in (2, 0)]
    await written(settings, first, rows)
    await written(settings, second, [(0, b"z", now_s)])
    topics = [second, "browsed-absent", first]
    async with Browser.open(settings, topics) as browser:
        found = await read(browser, topics)
        assert [record.value for record in found] == [
            b"z",
            *(b"0/%d" % n for n in range(3)),
            *(b"2/%d" % n for n in range(3)),
        ]
        assert [record.topic for record in found][:2] == [second, first]
        behind = await read(browser, topics, after=Place(first, 0, 1))
        assert [record.value for record in behind] == [b"0/2", b"2/0", b"2/1", b"2/2"]
        assert await read(browser, topics, after=Place(first, 2, 2)) == []
        assert [browser.partitions_count(topic) for topic in topics] == [1, 0, 3]


async def test_reading_begins_with_the_first_record_of_its_time(settings, make_topic):
    topic = await make_topic("timed", 2)
    now_s = int(time.time())
    await written(settings, topic, [(p, b"%d" % age, now_s - age) for age in (300, 200, 100) for p in (0, 1)])
    async with Browser.open(settings, [topic]) as browser:
        assert [r.value for r in await read(browser, [topic], since_s=now_s - 200)] == [b"200", b"100"] * 2
        assert await read(browser, [topic], since_s=now_s) == []


async def test_one_record_is_found_by_its_place_and_none_where_none_is(settings, make_topic):
    topic = await make_topic("placed", 1)
    await written(settings, topic, [(0, b"%d" % n, time.time()) for n in range(3)])
    async with Browser.open(settings, [topic]) as browser:
        assert (await browser.record(Place(topic, 0, 1))).value == b"1"
        for place in (Place(topic, 0, 3), Place(topic, 1, 0), Place(topic, 2**40, 0), Place("absent", 0, 0)):
            assert await browser.record(place) is None


async def test_records_larger_than_a_fetch_are_read_one_by_one(settings, make_topic):
    topic = await make_topic("large", 1)
    sizes = [3 * FETCH_BYTES_MAX, 10, 4 * FETCH_BYTES_MAX]
    await written(settings, topic, [(0, bytes(size), time.time()) for size in sizes])
    async with Browser.open(settings, [topic]) as browser:
        batches = [batch async for batch in browser.records([topic])]
    assert [len(record.value) for batch in batches for record in batch] == sizes
    assert len(batches) > 1


async def test_what_is_written_meanwhile_is_not_read(settings, make_topic):
    topic = await make_topic("moving", 1)
    await written(settings, topic, [(0, b"before", time.time())])
    async with Browser.open(settings, [topic]) as browser:
        found = []
        async for batch in browser.records([topic]):
            found += batch
            await written(settings, topic, [(0, b"meanwhile", time.time())])
    assert [record.value for record in found] == [b"before"]


async def test_records_of_an_aborted_or_finished_transaction_leave_no_gap_that_is_waited_for(
    settings, make_topic
):
    topic = await make_topic("marked", 1)
    async with (
        AIOKafkaProducer(
            bootstrap_servers=settings.bootstrap, transactional_id=settings.topic("tx")
        ) as kafka,
        kafka.transaction(),
    ):
        await kafka.send_and_wait(settings.topic(topic), b"v", partition=0)
    async with Browser.open(settings, [topic]) as browser:
        assert [record.value for record in await read(browser, [topic])] == [b"v"]


async def test_a_broker_that_is_away_is_said_to_be():
    settings = KafkaSettings(bootstrap="127.0.0.1:1", client_id="test")
    with pytest.raises(BrokerAway):
        async with Browser.open(settings, ["any"]):
            pass
