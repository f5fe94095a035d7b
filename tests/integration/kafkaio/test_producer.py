"""The producer on the real broker: where records land, limits, and a broker that is away or stops answering."""

import asyncio
from random import Random

import msgspec
import pytest
from aiokafka.errors import KafkaConnectionError

from contracts.codec import Envelope
from contracts.partition import partition_for
from contracts.topics import RECORD_BYTES_MAX
from kafkaio.producer import NotPublished, Producer, ProducerFull, RecordTooLarge, record_bytes
from tests.integration.kafkaio.reading import eventually, everything


async def test_records_land_where_the_key_says_with_their_headers(settings, make_topic):
    topic = await make_topic("keys", 4)
    async with Producer.open(settings) as producer:
        assert await producer.partitions_count(topic) == 4
        for n in range(20):
            envelope = Envelope(event_id=f"e{n}", event_type="Sample")
            await producer.send(topic, key=b"k%d" % n, value=b"v", envelope=envelope)
        await producer.send(topic, key=b"k1", value=b"placed", partition=3)
        assert producer.pending_records == producer.pending_bytes == 0
    records = await everything(settings, topic)
    assert len(records) == 21
    for record in records:
        assert record.partition == (3 if record.value == b"placed" else partition_for(record.key, 4))
    assert {dict(record.headers)["event-id"] for record in records if record.value == b"v"} == {
        b"e%d" % n for n in range(20)
    }


@pytest.mark.bco("A03")
async def test_bco_a03_the_largest_record_passes_and_a_larger_one_is_refused_before_it_is_sent(
    settings, make_topic
):
    topic = await make_topic("large", 1)
    size_bytes = RECORD_BYTES_MAX - 1500
    while record_bytes(None, bytes(size_bytes + 1), ()) <= RECORD_BYTES_MAX:
        size_bytes += 1
    incompressible = Random(1).randbytes(size_bytes)
    async with Producer.open(settings) as producer:
        await producer.send(topic, value=incompressible)
        with pytest.raises(RecordTooLarge):
            await producer.send(topic, value=incompressible + b"x")
        with pytest.raises(RecordTooLarge):
            await producer.send(topic, value=b"x", headers=[("h", b"x" * RECORD_BYTES_MAX)])
        assert producer.pending_bytes == 0
    assert [len(record.value) for record in await everything(settings, topic)] == [size_bytes]


@pytest.mark.bco("A02")
async def test_bco_a02_while_the_broker_is_away_a_send_fails_at_its_deadline(settings):
    away = msgspec.structs.replace(settings, bootstrap="127.0.0.1:1")
    loop = asyncio.get_running_loop()
    async with Producer.open(away, deadline_s=1.0) as producer:
        began = loop.time()
        with pytest.raises(NotPublished):
            await producer.send("any", key=b"k", value=b"v")
        assert 0.9 < loop.time() - began < 10.0
        with pytest.raises(NotPublished):
            await producer.partitions_count("any")
        assert producer.pending_records == 0


async def test_every_record_is_asked_to_be_on_all_replicas(settings, make_topic):
    """As the broker is asked on the wire: the one replica of these tests would say yes to less."""
    topic = await make_topic("asked", 1)
    async with Producer.open(settings) as producer:
        await eventually(lambda: producer.is_live)
        asked, send = [], producer._live.client.send

        async def noting(node, request, **more):
            asked.append(request)
            return await send(node, request, **more)

        producer._live.client.send = noting
        await producer.send(topic, value=b"v")
    produced = [request for request in asked if type(request).__name__ == "ProduceRequest"]
    assert [request.required_acks for request in produced] == [-1]


async def test_a_full_window_refuses_at_once_or_waits_until_there_is_room(settings):
    away = msgspec.structs.replace(settings, bootstrap="127.0.0.1:1")
    async with Producer.open(away, deadline_s=0.6, inflight_max=1) as producer, asyncio.TaskGroup() as tasks:

        async def fails():
            with pytest.raises(NotPublished):
                await producer.send("any", value=b"v")

        tasks.create_task(fails())
        await eventually(lambda: producer.pending_records == 1)
        with pytest.raises(ProducerFull):
            await producer.send("any", value=b"v", wait=False)
        await fails()


async def test_an_unknown_topic_fails_its_own_send_and_no_other(settings, make_topic):
    topic = await make_topic("known", 1)
    async with Producer.open(settings, deadline_s=1.5) as producer, asyncio.TaskGroup() as tasks:

        async def fails():
            with pytest.raises(NotPublished):
                await producer.send("unknown", value=b"v")

        tasks.create_task(fails())
        for _ in range(20):
            await producer.send(topic, value=b"v")
    assert len(await everything(settings, topic)) == 20


async def test_a_record_that_is_not_acknowledged_keeps_its_credit_until_its_producer_is_replaced(
    settings, make_topic, monkeypatch
):
    monkeypatch.setattr("kafkaio.producer.CLOSE_S", 0.5)
    topic = await make_topic("silent", 1)
    async with Producer.open(settings, deadline_s=2.0) as producer, asyncio.TaskGroup() as tasks:
        await producer.send(topic, value=b"before")
        stuck = producer._live

        async def never_answers(*_args, **_more):
            await asyncio.Event().wait()

        stuck.client.send = never_answers
        caller = tasks.create_task(producer.send(topic, value=b"lost"))
        await eventually(lambda: producer.pending_records == 1)
        caller.cancel()
        await asyncio.wait([caller])
        assert producer.pending_records == 1  # the caller is gone, the record is not
        with pytest.raises(NotPublished):
            await producer.send(topic, value=b"lost too")
        assert producer.pending_records == producer.pending_bytes == 0
        await eventually(lambda: producer.is_live)
        await producer.send(topic, value=b"after")
    assert [record.value for record in await everything(settings, topic)] == [b"before", b"after"]


async def test_a_producer_dropped_while_its_request_fails_takes_nobody_with_it(settings, make_topic):
    """The request wants to queue its batch again, which is gone: that error is the dropped producer's own."""
    topic = await make_topic("cut", 1)
    async with Producer.open(settings, deadline_s=1.0) as producer:
        await producer.send(topic, value=b"before")
        dropped = producer._live

        async def is_cut(*_args, **_more):
            raise KafkaConnectionError

        dropped.client.send = is_cut
        with pytest.raises(NotPublished):
            await producer.send(topic, value=b"lost")
        await eventually(lambda: producer.is_live)
        await producer.send(topic, value=b"after")
        await eventually(dropped._sender.sender_task.done)
    assert [record.value for record in await everything(settings, topic)] == [b"before", b"after"]
